"""What shows that the suite and the tests can fail: everything that is planted, and the evidence for each clause.

`planted` is the register of all that is wrong on purpose, `deaths` the record of who noticed, `killing` asks again:
the oracles of the simulator, the tests (`trials`, in copies of the checkout whose sources they change), or the cases of
the suite through an adapter (`broken_survey`, `broken`). `passes` tries random changes. `coverage` says what all of it
means for a clause.
"""
