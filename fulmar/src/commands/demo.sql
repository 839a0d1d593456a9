CREATE TABLE species(id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, grams INTEGER NOT NULL);
CREATE TABLE island(id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL);
CREATE TABLE sighting(
    id INTEGER PRIMARY KEY,
    species INTEGER NOT NULL REFERENCES species,
    island INTEGER NOT NULL REFERENCES island,
    day TEXT NOT NULL,
    birds INTEGER NOT NULL
);
INSERT INTO species(name, grams) VALUES
    ('northern fulmar', 800), ('southern fulmar', 780), ('wandering albatross', 8500),
    ('grey-headed albatross', 3500), ('snow petrel', 380), ('cape petrel', 430), ('storm petrel', 28),
    ('sooty shearwater', 800);
INSERT INTO island(name) VALUES ('St Kilda'), ('South Georgia'), ('Kerguelen'), ('Bear Island'), ('Crozet');
INSERT INTO sighting(species, island, day, birds)
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 1999)
    SELECT 1 + i * 7 % 8, 1 + i * 3 % 5, date('2026-01-01', (i % 300) || ' days'), 1 + i * i % 41 FROM n;
CREATE VIEW most_seen AS
    SELECT species.name AS species, island.name AS island, sum(birds) AS birds, count(*) AS sightings
    FROM sighting JOIN species ON species.id = species JOIN island ON island.id = island
    GROUP BY species.id, island.id ORDER BY birds DESC, species.name, island.name;
