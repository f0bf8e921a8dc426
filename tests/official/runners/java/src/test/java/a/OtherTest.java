package a;
import org.junit.*;
public class OtherTest { @Test public void works() { System.out.println("BUILD SUCCESS"); } }
