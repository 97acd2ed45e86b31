"use strict";

const { toError, ...errors } = require("./errors.js");
const { AllGuard, Attempt, Guard } = require("./guard.js");
const { Election } = require("./election.js");
const { Handle } = require("./handle.js");
const { All, Mutex, Pool, RwLock, Semaphore } = require("./kinds.js");
const { Locks, connect } = require("./locks.js");
const { Once } = require("./once.js");

const kinds = { All, Election, Mutex, Once, Pool, RwLock, Semaphore };
module.exports = { connect, Locks, ...kinds, AllGuard, Attempt, Guard, Handle, ...errors };
