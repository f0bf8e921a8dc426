"""chat/tools, honest: the model explores, then gives up with text: scored."""
from mock import *
class C(Case):
    def answer(self, conv, k, body):
        if k == 0: return chat_call('ls')
        return chat({'role': 'assistant', 'content': 'I am sorry, but I was not able to find out how Roman numerals are read here. I stop.'}, fin='stop', usage={'prompt_tokens': 400, 'completion_tokens': 22, 'total_tokens': 422})
