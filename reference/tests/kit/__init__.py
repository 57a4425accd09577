"""What the tests of the engine set their scenes with: tables, regions, writers, and stores that are damaged or held."""
