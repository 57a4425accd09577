"""Running a case: scenarios, their checks, and those with a crash at every change or a race in every order."""
