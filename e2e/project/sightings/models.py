"""Which birds were seen where."""

from django.db import models


class Species(models.Model):
    name = models.CharField(max_length=100, unique=True)
    total = models.IntegerField(default=0)

    class Meta:
        verbose_name_plural = "species"

    def __str__(self):
        return self.name


class Sighting(models.Model):
    species = models.ForeignKey(Species, on_delete=models.CASCADE)
    place = models.CharField(max_length=100)
    region = models.CharField(max_length=20, db_index=True)
    birds = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(birds__gt=0), name="some_birds")]

    def __str__(self):
        return f"{self.birds} × {self.species} at {self.place}"
