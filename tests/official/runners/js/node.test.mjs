import { describe, it, test } from 'node:test';
import assert from 'node:assert';
describe('calc', () => {
  describe('adds', () => {
    it('two # numbers', () => { console.log('ok 1 - noise'); });
    it('badly', () => { assert.equal(1, 2); });
  });
  it.skip('later', () => {});
  it.todo('some day');
});
test('top level', () => {});
test('parent', async (t) => { await t.test('child', () => {}); });
