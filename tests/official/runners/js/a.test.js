describe('calc', () => {
  describe('adds', () => {
    it('two numbers', () => { if (1 + 1 !== 2) throw new Error('x'); });
    it('badly', () => { throw new Error('1 is not 2'); });
  });
  it.skip('later', () => {});
});
it('top level', () => { console.log('{"noise": 1}'); });
