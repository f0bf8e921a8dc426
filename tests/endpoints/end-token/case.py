"""chat/bash, llamafile and llama.cpp: the token that ends each turn stands in the text, behind the fence of the command. (llamafile#465, llama.cpp#6872)"""
from mock import *
class C(Case):
    scaffold = 'bash'
    def answer(self, conv, k, body):
        command = ['ls', SOLVE, 'proctor-submit'][min(k, 2)]
        return chat({'role': 'assistant', 'content': f'I do this:\n\n```bash\n{command}\n```'}, {'content': '</s>'}, fin='stop')
