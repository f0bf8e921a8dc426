package a;
import org.junit.*;
public class CalcTest {
  @Test public void adds() { Assert.assertEquals(2, 1 + 1); }
  @Test public void bad() { Assert.assertEquals(3, 1 + 1); }
  @Ignore @Test public void later() { }
}
