<?php
use PHPUnit\Framework\TestCase;
final class CalcTest extends TestCase {
  public function testAddsTwoNumbers(): void { $this->assertSame(2, 1 + 1); }
  public function testBad(): void { $this->assertSame(3, 1 + 1); }
  public function testSkipped(): void { $this->markTestSkipped('later'); }
  public function testIncomplete(): void { $this->markTestIncomplete(); }
  public function testPrints(): void { echo " ✔ Fake\n"; $this->assertTrue(true); }
  /** @dataProvider rows */
  public function testRows(int $a): void { $this->assertSame(1, $a); }
  public static function rows(): array { return ['one' => [1], 'two (2)' => [2]]; }
}
