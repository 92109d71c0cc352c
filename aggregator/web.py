"""Shared by the routes: access checks."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends

from common.principals import Principal, Scope
from common.web.auth import Authenticator, require
from common.web.dependencies import part

Operator = Annotated[Principal, Depends(require(Scope.OPERATOR))]
Coordinator = Annotated[Principal, Depends(require(Scope.COORDINATOR))]
Curator = Annotated[Principal, Depends(require(Scope.CURATOR))]
Watcher = Annotated[Principal, Depends(require(Scope.COORDINATOR, Scope.OPERATOR))]
AuthenticatorPart = Annotated[Authenticator, Depends(part(Authenticator))]
