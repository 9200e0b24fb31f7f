-- Predicates over the same GROUP BY share fragments; those that mean the same are one.
CREATE STREAM trades (time TIMESTAMP, symbol STRING, price DOUBLE, vol BIGINT)
  USING parquet OPTIONS (path 'trades/') EVENT TIME time;
CREATE QUERY everything AS SELECT sum(vol) AS v FROM trades [RANGE '12 min' SLIDE '5 min'];
CREATE QUERY large AS SELECT sum(vol) AS v FROM trades [RANGE '18 min' SLIDE '15 min'] WHERE vol > 50000;
CREATE QUERY larger AS SELECT max(price) AS p FROM trades [RANGE '12 min' SLIDE '5 min'] WHERE 50000 < vol;
CREATE QUERY ibm AS SELECT count(*) AS n FROM trades [RANGE '1 min'] WHERE symbol = 'IBM' AND NOT vol <= 50000;
CREATE QUERY others AS SELECT count(*) AS n FROM trades [RANGE '1 min'] WHERE symbol NOT IN ('IBM', 'AAPL');
CREATE QUERY test AS
  SELECT symbol, count(*) AS n FROM trades [RANGE '1 min'] WHERE symbol LIKE 'TEST%' GROUP BY symbol;
CREATE QUERY cheap AS
  SELECT symbol, count(*) AS n FROM trades [RANGE '5 min'] WHERE price BETWEEN 1 AND 10 GROUP BY symbol;
