"""Keeps the recorder's data out of the functions that it installs where graded code can reach them.

Any code can read the variables that a Python function closes over. Therefore a function that the recorder puts into
a class of pytest or a module of the standard library only asks a question: it raises an audit event. An interpreter
hook answers the question, and no object refers to that hook. Before Python 3.8 there are no audit events, so the
functions close over the answers.
"""

import sys

AUDITS = hasattr(sys, "addaudithook")


def desk(event):
    """Returns two functions: `answer(question, function)` registers the function that answers a question, and
    `ask(question, *given)` asks the question. `event` is the name of the audit event, which nothing else raises."""
    answers = {}

    def answer(question, function):
        answers[question] = function

    if not AUDITS:
        return answer, lambda question, *given: answers[question](*given)

    def hook(name, arguments):
        if name == event:
            question, given, box = arguments
            box.append(answers[question](*given))

    sys.addaudithook(hook)
    return answer, asking(event)


def asking(event, audit=getattr(sys, "audit", None)):
    def ask(question, *given):
        box = []
        audit(event, question, given, box)
        return box[0]

    return ask
