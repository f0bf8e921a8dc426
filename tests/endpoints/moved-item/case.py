"""responses/tools: a server (SGLang's adapter) counts `output_index` separately for each kind of event; the items' ids are correct."""
from mock import *
class C(Case):
    api = 'responses'
    def answer(self, conv, k, body):
        name, a = [('shell', sh('ls')), ('shell', sh(SOLVE)), ('submit', {})][min(k, 2)]
        events = resp_events([rs(str(k)), fcall(name=name, args=a)])
        kinds = {}
        for event in events:
            if 'output_index' in event:
                kinds[event['type']] = kinds.get(event['type'], -1) + 1
                event['output_index'] = kinds[event['type']]
        return mev(*events)
