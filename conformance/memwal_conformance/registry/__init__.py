"""What the texts demand: the clauses, what they weigh under each revision, and who carries and tests them."""
