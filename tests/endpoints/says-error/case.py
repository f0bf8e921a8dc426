"""chat/tools, honest: the model ends with a short text that begins with `Error:`, with matching usage: scored."""
from mock import *
class C(Case):
    def answer(self, conv, k, body):
        if k == 0: return chat_call('ls')
        return chat({'role': 'assistant', 'content': 'Error: the package `numerals` cannot be imported here.'}, fin='stop', usage={'prompt_tokens': 400, 'completion_tokens': 14, 'total_tokens': 414})
