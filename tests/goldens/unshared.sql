-- A row satisfies few of these predicates, and the rows of a slice hardly twice the same ones (STS 4.3.3).
CREATE STREAM trades (time TIMESTAMP, symbol STRING, price DOUBLE, vol BIGINT)
  USING parquet OPTIONS (path 'trades/') EVENT TIME time;
CREATE QUERY a AS SELECT count(*) AS n FROM trades [RANGE '20 ms'] WHERE vol BETWEEN 10 AND 30 AND price > 10;
CREATE QUERY b AS SELECT count(*) AS n FROM trades [RANGE '20 ms'] WHERE vol BETWEEN 20 AND 50 AND price < 20;
CREATE QUERY c AS SELECT count(*) AS n FROM trades [RANGE '20 ms'] WHERE vol BETWEEN 40 AND 60 AND price > 15;
CREATE QUERY d AS SELECT count(*) AS n FROM trades [RANGE '20 ms'] WHERE vol BETWEEN 15 AND 45 AND price < 12;
