create table t(a integer primary key autoincrement, b text, check(a>0));
insert into t values(1,'x'),(2,null);
create index ti on t(b);
create view v as select a, b||1 from t;
create trigger tr after insert on t begin select 1; end;
create virtual table f using fts5(a,b);
insert into f values('hello','w');
create table "we ird"(a, "b c" generated always as (a+1));
insert into "we ird" values(5);
create table wr(a primary key, b) without rowid;
insert into wr values('k',x'00');
create virtual table r using rtree(id,x0,x1);
insert into r values(1,2,3);
attach ':memory:' as aux;
create table aux.q(x);
create temp table tt(y);
.tables
.tables %t%
.indexes
.databases
.schema
.schema --indent t
.schema sqlite_master
.schema v
.schema *q
.fullschema
.dump wr
.dump --data-only t
.dump --preserve-rowids aux t
