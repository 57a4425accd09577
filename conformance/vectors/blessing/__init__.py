"""How the vectors are derived: by hand, protobuf text format, mmh3, pyarrow and pylance; never by the engine."""
