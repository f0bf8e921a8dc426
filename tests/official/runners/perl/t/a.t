use Test::More;
ok(1, 'adds');
subtest 'group' => sub { plan tests => 2; ok(1, 'inner # one'); ok(0, 'inner bad'); };
TODO: { local $TODO = 'later'; ok(0, 'todo'); }
SKIP: { skip 'no net', 1; ok(1); }
done_testing();
