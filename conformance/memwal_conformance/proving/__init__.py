"""What shows that the suite and the tests can fail: everything that is planted, and what stands behind each clause."""
