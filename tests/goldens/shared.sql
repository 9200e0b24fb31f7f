-- Windows in every spelling share one relation, and aggregates share primitives.
CREATE STREAM trades (time TIMESTAMP, symbol STRING, price DOUBLE, vol BIGINT)
  USING parquet OPTIONS (path 'trades/') EVENT TIME time DELAY '10 seconds';
CREATE QUERY average AS SELECT symbol, avg(price) AS p FROM trades
  GROUP BY symbol, window(time, '5 minutes', '1 minute');
CREATE QUERY deviation AS SELECT symbol, stddev_samp(price) AS d FROM trades [RANGE '7 min' SLIDE '3 min']
  GROUP BY symbol;
CREATE QUERY total AS SELECT symbol, sum(vol) AS v, sum(price) AS p, count(*) AS n
  FROM trades [WINDOW '10 min' SLIDE '2 min'] GROUP BY symbol;
CREATE QUERY hop AS SELECT symbol, count(price) AS n FROM trades
  GROUP BY symbol, HOP(time, INTERVAL 1 MINUTE, INTERVAL 5 MINUTES);
CREATE QUERY tumble AS SELECT symbol, max(price) AS top FROM trades
  GROUP BY symbol, TUMBLE(time, INTERVAL 90 SECONDS) HAVING count(*) > 10;
CREATE QUERY shifted AS SELECT symbol, min(price) AS low FROM trades
  GROUP BY symbol, window(time, '5 minutes', '5 minutes', '1 minute');
CREATE QUERY q7 AS SELECT symbol, count(*) AS n FROM trades [RANGE '1 h' SLIDE '1 h'] GROUP BY symbol;
CREATE QUERY q8 AS SELECT symbol, count(*) AS n FROM trades [RANGE '2 h' SLIDE '1 h'] GROUP BY symbol;
CREATE QUERY q9 AS SELECT symbol, count(*) AS n FROM trades [RANGE '1500 ms' SLIDE '1 s'] GROUP BY symbol;
