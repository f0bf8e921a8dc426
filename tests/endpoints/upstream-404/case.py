"""responses/tools, a stateless gateway: a reasoning item with its id makes the service behind it respond with 404, which the gateway reports as 502 `Upstream request failed`, every time; without ids it works. (sub2api#2067, neon-pkgs#367)"""
from mock import *
class C(Case):
    api = 'responses'
    timeout = 150
    def answer(self, conv, k, body):
        call = [fcall('ls'), fcall(SOLVE), fcall(name='submit', args={})][min(k, 2)]
        return resp(rs(str(k)), call)
    def check(self, conv, k, body, h):
        if any(item.get('type') == 'reasoning' and item.get('id') for item in body['input']):
            return js({'error': {'type': 'upstream_error', 'message': 'Upstream request failed'}}, 502)
