.parameter set :a 5
.parameter set @foo 'x y'
.parameter set ?1 hello
.parameter list
SELECT :a, @foo;
SELECT ?1;
.parameter unset ?1
.parameter list
.parameter clear
SELECT :a IS NULL;
.echo on
SELECT 1; SELECT
2;
.echo off
.changes on
CREATE TABLE birds(species, span);
INSERT INTO birds VALUES('fulmar', 107), ('albatross', 350);
.changes off
.eqp on
SELECT * FROM birds WHERE span > (SELECT avg(span) FROM birds) UNION SELECT 1, 2;
.eqp off
EXPLAIN QUERY PLAN SELECT * FROM birds;
.separator ", " ";\n"
.headers on
SELECT * FROM birds;
.separator | "\n"
.limit attached
.limit attached 3
.timeout 100
.print a "b c" 'd\n'
.help mode
.help nosuch
.output off
SELECT 'unseen';
.output
SELECT 'seen';
.once |cat >/dev/null
SELECT 'to a command';
.bail off
# a comment
SELECT 3
/
