"""Why a reply is an error: Flower's codes, which none of its public modules has."""

RAISED = 2  # the client's app has raised
MOD_REFUSED = 6  # a mod of the app does not take what was sent, or what the app made of it
OF_THE_APP = (RAISED, MOD_REFUSED)  # it will answer the same again; other errors are outages
