-- Volumes and prices have nothing to do with each other: joint fragments would be too many, so they are apart.
CREATE STREAM trades (time TIMESTAMP, symbol STRING, price DOUBLE, vol BIGINT)
  USING parquet OPTIONS (path 'trades/') EVENT TIME time;
CREATE QUERY v1 AS SELECT count(*) AS n FROM trades [RANGE '1 s' SLIDE '200 ms'] WHERE vol > 100;
CREATE QUERY v2 AS SELECT count(*) AS n FROM trades [RANGE '1 s' SLIDE '200 ms'] WHERE vol > 200;
CREATE QUERY v3 AS SELECT count(*) AS n FROM trades [RANGE '1 s' SLIDE '200 ms'] WHERE vol > 300;
CREATE QUERY v4 AS SELECT count(*) AS n FROM trades [RANGE '1 s' SLIDE '200 ms'] WHERE vol > 400;
CREATE QUERY v5 AS SELECT count(*) AS n FROM trades [RANGE '1 s' SLIDE '200 ms'] WHERE vol > 500;
CREATE QUERY v6 AS SELECT count(*) AS n FROM trades [RANGE '1 s' SLIDE '200 ms'] WHERE vol > 600;
CREATE QUERY v7 AS SELECT count(*) AS n FROM trades [RANGE '1 s' SLIDE '200 ms'] WHERE vol > 700;
CREATE QUERY v8 AS SELECT count(*) AS n FROM trades [RANGE '1 s' SLIDE '200 ms'] WHERE vol > 800;
CREATE QUERY v9 AS SELECT count(*) AS n FROM trades [RANGE '1 s' SLIDE '200 ms'] WHERE vol > 900;
CREATE QUERY p1 AS SELECT count(*) AS n FROM trades [RANGE '1 s' SLIDE '200 ms'] WHERE price > 10;
CREATE QUERY p2 AS SELECT count(*) AS n FROM trades [RANGE '1 s' SLIDE '200 ms'] WHERE price > 20;
CREATE QUERY p3 AS SELECT count(*) AS n FROM trades [RANGE '1 s' SLIDE '200 ms'] WHERE price > 30;
CREATE QUERY p4 AS SELECT count(*) AS n FROM trades [RANGE '1 s' SLIDE '200 ms'] WHERE price > 40;
CREATE QUERY p5 AS SELECT count(*) AS n FROM trades [RANGE '1 s' SLIDE '200 ms'] WHERE price > 50;
