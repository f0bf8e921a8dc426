"""responses/tools: the model called a tool with a blank in its name; item names must match a pattern."""
from mock import *
import re
class C(Case):
    api = 'responses'
    def script(self, conv): return [lambda: resp(fcall('ls', name='run shell'))]
    def check(self, conv, k, body, h):
        for i, item in enumerate(body['input']):
            if item.get('type') == 'function_call' and not re.fullmatch('[a-zA-Z0-9_-]+', item['name']):
                return err(400, f"Invalid 'input[{i}].name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", param=f'input[{i}].name', code='invalid_value')
