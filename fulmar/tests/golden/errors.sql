-- c
select 1;
selec 2;

select *
from nosuch;
create table t(a unique);
insert into t values(1); insert into t values(1);
.foo
.mode foo
select 3;
select abs(-9223372036854775808);
select 1,2,3 from t where aaaaaaaaaaaaaaaaaaa = 1 and bbbbbb = 2;
.tabels
.mode box extra
.headers maybe
.read nosuch.sql
.open foo:bar
.open fulmar://host:eggs/db
.import a
.parameter foo
select 'über' from t order by nosuch;
select 4
