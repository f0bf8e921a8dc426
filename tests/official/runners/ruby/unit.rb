require 'test/unit'
class UnitCalc < Test::Unit::TestCase
  test "adds two numbers" do assert_equal 2, 1 + 1 end
  test "bad: with colon" do assert_equal 3, 1 + 1 end
  def test_error; raise 'x'; end
  def test_omit; omit 'later'; end
  def test_pend; pend 'some day'; end
end
