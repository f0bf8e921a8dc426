"""chat/tools, Gemini's chat address: a tool without parameters must not have an object schema without properties. (agno#2112, vercel/ai#3371, aichat#666)"""
from mock import *
class C(Case):
    def script(self, conv): return [lambda: chat_call('ls')]
    def check(self, conv, k, body, h):
        for i, tool in enumerate(body['tools']):
            schema = tool['function'].get('parameters')
            if schema and schema.get('type') == 'object' and not schema.get('properties'):
                return js([{'error': {'code': 400, 'message': f'* GenerateContentRequest.tools[0].function_declarations[{i}].parameters.properties: should be non-empty for OBJECT type\n', 'status': 'INVALID_ARGUMENT'}}], 400)
