require 'minitest/autorun'
class TestCalc < Minitest::Test
  def test_adds; assert_equal 2, 1 + 1; end
  def test_bad; assert_equal 3, 1 + 1; end
  def test_error; raise 'x = y'; end
  def test_skip; skip 'later'; end
  def test_prints; puts 'TestCalc#fake. = 0.00 s = .'; end
end
