"""chat/bash: the model itself writes Python without indentation, streamed or not, and gives up with text: scored."""
from mock import *
FLAT = """cat > /tmp/a.py <<'END'
def from_roman(text):
total = 0
for numeral in text:
while numeral:
total += 1
if total > 3999:
raise ValueError(text)
return total
END
python3 /tmp/a.py"""
class C(Case):
    scaffold = 'bash'
    def answer(self, conv, k, body):
        text = 'I write the function.\n\n' + ASK % FLAT if steps(body) < 4 else 'My code does not work. I stop here.'
        return say(body, text, use(n_of(body), n_of(text)))
