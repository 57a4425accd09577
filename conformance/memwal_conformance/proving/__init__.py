"""What shows that the suite and the tests can fail: everything that is planted, and what stands behind each clause.

A mutant is a change of the source for a clause, and a test that has to notice. `mutants` reads what is written down and
what was seen, `trials` makes it so again, `passes` tries random ones. They need a checkout: they change its sources in
a copy. `broken` are adapters that break a clause, `broken_survey` says which planted bugs the suite sees.
"""
