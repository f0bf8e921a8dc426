"""chat/bash, llamafile and llama.cpp: the end-of-turn token appears in the text, after the command's fence. (llamafile#465, llama.cpp#6872)"""
from mock import *
class C(Case):
    scaffold = 'bash'
    def answer(self, conv, k, body):
        command = ['ls', SOLVE, 'proctor-submit'][min(k, 2)]
        return chat({'role': 'assistant', 'content': f'I do this:\n\n```bash\n{command}\n```'}, {'content': '</s>'}, fin='stop')
