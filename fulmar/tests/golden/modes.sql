create table t(a integer, "b c" text, r real, z blob);
insert into t values(1,'x',0.1,x'00ff'),(-5,'it''s "q", <b>&',1e100,null),(null,'two
lines	tab','9.0e999',x''),(9223372036854775807,'é漢',3.0,x'41');
insert into t values(2,'',-0.0,zeroblob(3));
.print --- list
.mode list
.headers on
select * from t;
.print --- csv
.mode csv
.headers on
select * from t;
.print --- column
.mode column
.headers on
select * from t;
.print --- table
.mode table
.headers on
select * from t;
.print --- box
.mode box
.headers on
select * from t;
.print --- line
.mode line
.headers on
select * from t;
.print --- json
.mode json
.headers on
select * from t;
.print --- insert
.mode insert
.headers on
select * from t;
.print --- quote
.mode quote
.headers on
select * from t;
.print --- tabs
.mode tabs
.headers on
select * from t;
.print --- markdown
.mode markdown
.headers on
select * from t;
.print --- html
.mode html
.headers on
select * from t;
.print --- tcl
.mode tcl
.headers on
select * from t;
.print --- qbox
.mode qbox
.headers on
select * from t;
.print --- insert birds
.mode insert birds
.headers on
select * from t;
.print --- box --wrap 10
.mode box --wrap 10
.headers on
select * from t;
.print --- column --wrap 12 --wordwrap on
.mode column --wrap 12 --wordwrap on
.headers on
select * from t;
.print --- table --wrap 12 --ww --quote
.mode table --wrap 12 --ww --quote
.headers on
select * from t;
.print --- widths
.mode column
.width 5 -8
select * from t;
.width
.nullvalue ∅
.mode json
select 1 where 0;
.mode box
select 1 where 0;
select null, 1;
.show
.print --- ascii
.width
.mode ascii
select * from t;
