-- The windows of Figure 3: pairs U(12, 3) and V(6, 3), a common period of 45 s with 12 slices.
CREATE STREAM trades (time TIMESTAMP, symbol STRING, price DOUBLE, vol BIGINT)
  USING parquet OPTIONS (path 'trades/') EVENT TIME time DELAY '10 seconds';
CREATE QUERY u AS SELECT sum(price * vol) AS value FROM trades [RANGE '18 s' SLIDE '15 s'];
CREATE QUERY v AS SELECT sum(price * vol) AS value FROM trades [RANGE '12 s' SLIDE '9 s'];
