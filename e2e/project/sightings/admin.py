"""The admin's pages."""

from django.contrib import admin

from .models import Sighting, Species

admin.site.register(Species)


@admin.register(Sighting)
class SightingAdmin(admin.ModelAdmin):
    list_display = ["species", "place", "region", "birds"]
    list_filter = ["region"]
    search_fields = ["place", "species__name"]
