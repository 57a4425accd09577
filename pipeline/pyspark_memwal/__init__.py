"""The Spark data source `memwal`. Spark finds this module by its name; nothing has to be registered.

Reading::

    spark.read.format("memwal").load("the/table")

Writing is an upsert by primary key, one task for each region::

    from memwal_spark.route import route

    df = route(df, "the/table", sequence_by="seq")
    df.write.format("memwal").option("sequenceBy", "seq").mode("append").save("the/table")

`memwal_spark.upsert` does both. Each put of a task is durable when it returns; rows that are not higher than what is
stored for their key are left out, so that an attempt or a job that comes late changes nothing. There is no atomic
commit of a whole job: readers may see the rows of some tasks before others. All of it is in ``docs/spark.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from memwal_spark.following import ChangeReader
    from memwal_spark.source import MemWalReader, MemWalWriter
    from memwal_spark.streaming import MemWalStreamWriter
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):  # type: ignore[misc] # pyspark's own types are not read
    """Reader and writer of MemWAL tables, of batches and of streams; options: `memwal_spark.options`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "memwal"

    def schema(self) -> StructType:
        """Columns that a read gives."""
        from memwal_spark.options import follows

        # A program of Spark's own asks this, and each module costs it time.
        if follows(self.options):
            from memwal_spark.following import follow_schema

            return follow_schema(self.options)
        from memwal_spark.source import read_schema

        return read_schema(self.options)

    def reader(self, schema: StructType) -> MemWalReader:
        """A reader of ``schema``, which may be the caller's own choice of columns."""
        from memwal_spark.source import reader

        return reader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> MemWalWriter:
        """A writer of rows of ``schema``; raises InvalidArgument for ``overwrite``."""
        from memwal_spark.source import MemWalWriter

        return MemWalWriter(self.options, schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> ChangeReader:  # noqa: N802 - Spark's name
        """A reader of changes, with the columns of ``schema``."""
        from memwal_spark.following import ChangeReader

        return ChangeReader(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> MemWalStreamWriter:  # noqa: N802 - Spark's name
        """A writer of a query's batches; raises InvalidArgument for ``overwrite``, which is output mode complete."""
        from memwal_spark.streaming import MemWalStreamWriter

        return MemWalStreamWriter(self.options, schema, overwrite=overwrite)
