"""gemini/tools: from step 2 on, the call arrives as an executableCode part (print(default_api.shell(...))) instead of a functionCall, although code execution was not requested. (java-genai#347)"""
from mock import *
class C(Case):
    api = 'gemini'
    timeout = 200
    def answer(self, conv, k, body):
        if k == 0: return gem(gcall('ls', sig='S1'))
        r = gem({'executableCode': {'language': 'PYTHON', 'code': 'print(default_api.shell(command="cat numerals/roman.py", timeout=None))\n'}})
        r.counts = False; return r
