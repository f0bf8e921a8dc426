RSpec.describe 'Calc' do
  it('adds') { expect(1 + 1).to eq 2 }
  it('fails - badly') { expect(1 + 1).to eq 3 }
  it('is pending')
  context('inner') { it('works') { puts 'noise - passed' } }
end
