"""responses/tools: status 404 for an item that the endpoint did not store; it accepts items without ids."""
from mock import *
class C(Case):
    api = 'responses'
    def script(self, conv): return [lambda: resp(rs('1'), fcall('ls')), lambda: resp(rs('2'), fcall('pwd'))]
    def check(self, conv, k, body, h):
        for item in body['input']:
            if item.get('type') == 'reasoning' and 'id' in item:
                return err(404, f"Item with id '{item['id']}' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input.")
            if item.get('type') == 'reasoning' and not item.get('encrypted_content'): return err(400, 'reasoning without content')
