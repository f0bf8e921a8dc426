"""chat/tools, honest, a server that reports zero tokens for every response. The model gives up with a short text: scored."""
from mock import *
class C(Case):
    def answer(self, conv, k, body):
        usage = {'prompt_tokens': 0, 'completion_tokens': 0, 'total_tokens': 0}
        if k == 0: return chat_call('ls', usage=usage)
        return chat({'role': 'assistant', 'content': 'I am sorry, but I was not able to find out how Roman numerals are read here. I stop.'}, fin='stop', usage=usage)
