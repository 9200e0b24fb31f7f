-- Keys and joins make relations of their own; predicates do not. One job computes them all.
CREATE STREAM trades (time TIMESTAMP, symbol STRING, price DOUBLE, vol BIGINT)
  USING parquet OPTIONS (path 'trades/') EVENT TIME time;
CREATE TABLE close (symbol STRING, cp DOUBLE) USING csv OPTIONS (path 'close.csv', header 'true');
CREATE QUERY big AS
  SELECT sum(price * vol) AS value FROM trades [RANGE '12 min' SLIDE '5 min'] WHERE vol > 50000;
CREATE QUERY by_symbol AS
  SELECT symbol, avg(price) AS p, count(*) FILTER (WHERE vol > 100) AS large FROM trades
  GROUP BY symbol, window(time, '5 minutes', '1 minute') HAVING count(*) > 100;
CREATE QUERY rising AS
  SELECT count(*) AS n FROM trades T [RANGE '10 min' SLIDE '10 min'], close C
  WHERE T.symbol = C.symbol AND T.price > 1.05 * C.cp;
CREATE QUERY quiet AS SELECT count(*) AS n FROM trades [RANGE '1 min' SLIDE '1 min'] EMIT EMPTY;
CREATE QUERY groups AS SELECT symbol FROM trades [RANGE '1 min' SLIDE '1 min'] GROUP BY symbol, price > 10;
