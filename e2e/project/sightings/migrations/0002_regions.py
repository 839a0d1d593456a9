"""What a project goes through in time: a renamed column, a new one that is filled from others, constraints."""

from django.db import migrations, models


def fill(apps, schema_editor):
    for sighting in apps.get_model("sightings", "Sighting").objects.all():
        sighting.region = sighting.place.rpartition(", ")[2]
        sighting.save()


class Migration(migrations.Migration):
    dependencies = [("sightings", "0001_initial")]

    operations = [
        migrations.RenameField("sighting", "location", "place"),
        migrations.AddField("sighting", "region", models.CharField(max_length=20, null=True)),
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.AlterField("sighting", "region", models.CharField(max_length=20, db_index=True)),
        migrations.AlterField("sighting", "birds", models.PositiveIntegerField(default=1)),
        migrations.AddConstraint(
            "sighting", models.CheckConstraint(condition=models.Q(birds__gt=0), name="some_birds")
        ),
        migrations.AddField("species", "total", models.IntegerField(default=0)),
    ]
