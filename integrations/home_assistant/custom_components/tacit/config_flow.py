"""Asks for the curator's address, its token, the house's name there, and the meters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import voluptuous as vol
from homeassistant.config_entries import ConfigFlow
from homeassistant.const import CONF_TOKEN, CONF_URL
from homeassistant.data_entry_flow import FlowResult
from homeassistant.helpers.aiohttp_client import async_get_clientsession
from homeassistant.helpers.selector import EntitySelector, EntitySelectorConfig

from .const import CONF_CURATOR, CONF_METERS, DOMAIN
from .curator import Curator, CuratorUnreachable, TokenRefused

SCHEMA = vol.Schema(
    {
        vol.Required(CONF_URL): str,
        vol.Required(CONF_CURATOR): str,
        vol.Required(CONF_TOKEN): str,
        vol.Required(CONF_METERS): EntitySelector(
            EntitySelectorConfig(domain="sensor", device_class="energy", multiple=True)
        ),
    }
)


class TacitFlow(ConfigFlow, domain=DOMAIN):
    """Sets up one house."""

    VERSION = 1

    async def async_step_user(self, user_input: dict[str, Any] | None = None) -> FlowResult:
        """The only step: everything is tried before it is kept."""
        errors: dict[str, str] = {}
        if user_input is not None:
            await self.async_set_unique_id(f"{user_input[CONF_URL]} {user_input[CONF_CURATOR]}")
            self._abort_if_unique_id_configured()
            errors = await self._problems(user_input)
            if not errors:
                return self.async_create_entry(title=user_input[CONF_CURATOR], data=user_input)
        shown = self.add_suggested_values_to_schema(SCHEMA, user_input or {})
        return self.async_show_form(step_id="user", data_schema=shown, errors=errors)

    async def async_step_reauth(self, _: Mapping[str, Any]) -> FlowResult:
        """The curator refuses the token."""
        return await self.async_step_token()

    async def async_step_token(self, user_input: dict[str, Any] | None = None) -> FlowResult:
        """Asks for another one."""
        errors: dict[str, str] = {}
        entry = self.hass.config_entries.async_get_entry(self.context["entry_id"])
        assert entry is not None
        if user_input is not None:
            data = {**entry.data, **user_input}
            errors = await self._problems(data)
            if not errors:
                self.hass.config_entries.async_update_entry(entry, data=data)
                await self.hass.config_entries.async_reload(entry.entry_id)
                return self.async_abort(reason="reauth_successful")
        schema = vol.Schema({vol.Required(CONF_TOKEN): str})
        return self.async_show_form(step_id="token", data_schema=schema, errors=errors)

    async def _problems(self, given: dict[str, Any]) -> dict[str, str]:
        session = async_get_clientsession(self.hass)
        curator = Curator(session, given[CONF_URL], given[CONF_TOKEN], given[CONF_CURATOR])
        try:
            await curator.budget()
        except TokenRefused:
            return {CONF_TOKEN: "token_refused"}
        except CuratorUnreachable:
            return {CONF_URL: "cannot_connect"}
        return {}
