"""chat/tools, honest: the model ends with a short text that begins like a limit of the account, and its tokens are counted: scored."""
from mock import *
class C(Case):
    def answer(self, conv, k, body):
        if k == 0: return chat_call('ls')
        return chat({'role': 'assistant', 'content': "You've reached your answer: the package reads no Roman numerals, and I stop here."}, fin='stop', usage={'prompt_tokens': 400, 'completion_tokens': 19, 'total_tokens': 419})
