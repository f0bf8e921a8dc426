"""chat/tools: the first words arrive, then empty events until the wall limit, which is shorter than the idle limit. The endpoint used up the time."""
from mock import *
class C(Case):
    budget = 'steps = 12\nwall_seconds = 16'
    def answer(self, conv, k, body):
        if k == 0: return chat_call('ls')
        beats = [p for _ in range(60) for p in (data(chunk({})), 0.5)]
        answer = chat({'role': 'assistant', 'content': 'I look at '})
        answer.pieces = answer.pieces[:1] + beats
        return answer
