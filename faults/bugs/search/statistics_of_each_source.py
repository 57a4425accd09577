"""Each source scores its rows by its own statistics."""

from memwal.maintained.bm25 import CorpusStatistics
from memwal.read.documents import Documents, GlobalBM25
from memwal.read.ranked import Ranked
from memwal_sim.bugs import Bug

_rank = Documents.rank


async def _alone(documents: Documents) -> Ranked:
    """In place of ranking by the statistics of all sources together."""
    everything = documents.everything
    await everything.statistics()
    own = sum((corpus.statistics() for _, corpus in documents.found), CorpusStatistics())
    documents.everything = GlobalBM25(everything.child, everything.documents, found=own)
    return await _rank(documents)


BUG = Bug(
    name="statistics_of_each_source",
    clause="PLAN-024",
    what="A text search scores the rows of each source by the number and length of texts in that source alone.",
    why="A word that is rare in one source counts more there: the best rows of a small generation come first.",
    scenario="asked_every_way",
    oracle="a text search scores as one table does",
    violated="PLAN-024",
    replaced={"memwal.read.documents:Documents.rank": _alone},
)
